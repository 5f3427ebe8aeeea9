"""Greet somebody."""


def greeting(name: str) -> str:
    """`Hello, NAME!` with the name in it."""
    # TODO: greet.
    raise NotImplementedError("greeting: say hello")
