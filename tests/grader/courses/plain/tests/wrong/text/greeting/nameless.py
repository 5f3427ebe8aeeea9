# wrong: greets the world | central: greeting | told: expected "Hello, Ada!"


def greeting(name: str) -> str:
    return "Hello, world!"
