# wrong: keeps upper case, splits at blanks | caught by: test_case, test_random_texts | told: promised


def word_count(text: str) -> dict[str, int]:
    words = text.split(" ")
    return {word: words.count(word) for word in words}


def most_common(text: str, n: int) -> list[str]:
    if n < 1:
        raise ValueError("n must be at least 1")
    counts = word_count(text)
    return sorted(counts, key=lambda word: (-counts[word], word))[:n]
