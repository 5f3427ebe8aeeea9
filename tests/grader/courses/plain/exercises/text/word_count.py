"""Count the words of a text."""


def word_count(text: str) -> dict[str, int]:
    """How often each word occurs in `text`; words are split at white space, case is ignored."""
    # TODO: count.
    raise NotImplementedError("word_count: count the words")


def most_common(text: str, n: int) -> list[str]:
    """The `n` most frequent words, the most frequent one first, those of a tie by the alphabet.

    Raises ValueError, with a message that names `n`, if `n` is below 1.
    """
    # TODO: sort what word_count found.
    raise NotImplementedError("most_common: sort the words by how often they occur")
