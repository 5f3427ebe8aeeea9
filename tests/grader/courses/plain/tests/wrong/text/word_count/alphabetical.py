# wrong: sorts by the alphabet | caught by: test_most_common, test_no_words_wanted | told: returned normally


def word_count(text: str) -> dict[str, int]:
    words = text.lower().split()
    return {word: words.count(word) for word in words}


def most_common(text: str, n: int) -> list[str]:
    return sorted(word_count(text))[:n]
