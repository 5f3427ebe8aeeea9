"""What the commands print in a terminal, a module for each kind of thing that is shown."""
