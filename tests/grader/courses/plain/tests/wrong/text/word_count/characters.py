# wrong: counts characters | central: word_count | told: counted characters


def word_count(text: str) -> dict[str, int]:
    return {each: text.count(each) for each in text}


def most_common(text: str, n: int) -> list[str]:
    if n < 1:
        raise ValueError("n is too small")
    return list(word_count(text))[:n]
