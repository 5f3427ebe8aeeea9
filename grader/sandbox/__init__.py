"""Sandboxes: the processes that run student code, and the walls around them."""
