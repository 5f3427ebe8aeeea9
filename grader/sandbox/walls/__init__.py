"""The walls around student code, and the order in which they are raised."""
