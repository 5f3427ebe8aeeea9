"""The output of the commands in a terminal, a module for each kind."""
