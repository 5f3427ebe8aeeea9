"""Joins the parts."""


def greeting(name: str) -> str:
    return "".join(["Hello, ", name, "!"])
