# wrong: greets the world | told: expected "Hello, Ada!"


def greeting(name: str) -> str:
    return "Hello, world!"
