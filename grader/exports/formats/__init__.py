"""The formats that other systems read, one module each."""
