"""Counts each different word in the list of all words."""


def word_count(text: str) -> dict[str, int]:
    words = text.lower().split()
    return {word: words.count(word) for word in dict.fromkeys(words)}


def most_common(text: str, n: int) -> list[str]:
    if n <= 0:
        raise ValueError("n must be at least 1")
    counts = word_count(text)
    by_name = sorted(counts)
    return sorted(by_name, key=counts.__getitem__, reverse=True)[:n]
