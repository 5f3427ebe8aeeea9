# wrong: greets the world | caught by: test_greeting | told: expected "Hello, Ada!"


def greeting(name: str) -> str:
    return "Hello, world!"
