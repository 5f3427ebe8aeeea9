"""Greet somebody."""


def greeting(name: str) -> str:
    """`Hello, NAME!` with the name in it."""
    return f"Hello, {name}!"
