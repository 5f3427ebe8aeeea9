"""Count the words of a text."""


def word_count(text: str) -> dict[str, int]:
    """How often each word occurs in `text`; words are split at white space, case is ignored."""
    counts: dict[str, int] = {}
    for word in text.lower().split():
        counts[word] = counts.get(word, 0) + 1
    return counts


def most_common(text: str, n: int) -> list[str]:
    """The `n` most frequent words, the most frequent one first, those of a tie by the alphabet.

    Raises ValueError, with a message that names `n`, if `n` is below 1.
    """
    if n < 1:
        raise ValueError(f"n is {n}, it must be at least 1")
    counts = word_count(text)
    return sorted(counts, key=lambda word: (-counts[word], word))[:n]
