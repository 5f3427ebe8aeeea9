"""Tests of merge, train_bpe, encode and decode."""

from __future__ import annotations

from grader.judge.checks import Cases, Draw, laws, promise
from grader.judge.student import Student

# Few different bytes, so that pairs are frequent.
LETTERS, LENGTH, MERGES = b" .ab", 120, 10
# 1 and 2 are frequent, and also occur as digits of the others.
TOKENS = (1, 2, 1, 2, 11, 21)


# --- a merge -------------------------------------------------------------------------------------


@promise("merge", points=4, hint="Where a pair is, append new and go on by two; else by one.")
def test_merge(code: Student, draw: Draw) -> Cases:
    """Each occurrence of the pair is replaced, and everything else stays."""
    for length in (80, 7, 1, 0):
        tokens = [draw.choice(TOKENS) for _ in range(length)]
        yield f"the result for {length} tokens", code.function("merge")(tokens, (1, 2), 300)


@promise("merge", points=2, hint="After a pair, go on behind it: by two.")
def test_overlap(code: Student, draw: Draw) -> Cases:
    """Of several equal tokens, pairs are taken from the left."""
    token = draw.size(5, 200)
    for length in (2, 3, 6, 7):
        tokens = [token + 1, *[token] * length, token + 2]
        yield (
            f"the result for {length} equal tokens",
            code.function("merge")(tokens, (token, token), 256),
        )


@promise(
    "merge",
    hint="Make a new list.",
    word="code that does nothing changes nothing",
)
def test_changes_nothing(student: Student) -> None:
    """merge does not change the tokens that it is given."""
    laws.check_changes_nothing(student, "merge", [1, 2, 1, 2, 3], (1, 2), 256)


# --- training ------------------------------------------------------------------------------------


@promise("train_bpe", points=5, hint="Count the pairs anew after each merge; then choose.")
def test_training(code: Student, draw: Draw) -> Cases:
    """The most frequent pair of all tokens, old and new ones, is merged each time."""
    # There are no ties: each time, one pair is more frequent than all others.
    yield "the merges", code.function("train_bpe")(blocks(draw), 6)


@promise("train_bpe", points=3, hint="min(counts, key=lambda pair: (-counts[pair], pair)).")
def test_ties(code: Student, draw: Draw) -> Cases:
    """Of equally frequent pairs, the smallest one is merged first."""
    low, middle, high, *others = sorted(draw.size(0, 64) + 64 * i for i in range(3))
    others = [200 + int(i) for i in draw.permutation(50)]
    for first, second in (((low, high), (middle, low)), ((middle, low), (middle, high))):
        for pairs in ((first, second), (second, first)):
            data = [number for pair in pairs * 2 for number in (*pair, others.pop())]
            merges = code.function("train_bpe")(bytes(data), 2)
            yield f"the merges for {pairs[0]} and {pairs[1]}, twice each", merges


@promise("train_bpe", points=2, hint="zip(tokens, tokens[1:]) has all neighbors.")
def test_overlapping_pairs(code: Student, draw: Draw) -> Cases:
    """Pairs that overlap are counted, too."""
    letter, *others = [int(i) for i in draw.permutation(256)]
    data = [letter] * 5 + [n for other in others[2:5] for n in (other, *others[:2])]
    yield "the merge", code.function("train_bpe")(bytes(data), 1)


@promise("train_bpe", points=2, hint="Stop where fewer than two tokens are left.")
def test_few(code: Student, draw: Draw) -> Cases:
    """Pairs that occur once are merged, too; if no pair is left, there are fewer merges."""
    for length in (0, 1, 2, 5):
        merges = code.function("train_bpe")(text(draw, length), 9)
        yield f"the merges of {length} bytes", merges


@promise("train_bpe", points=2, hint="Which of the tests above fails, too?")
def test_text(code: Student, draw: Draw) -> Cases:
    """All of these rules hold together in a longer text."""
    yield "the merges", code.function("train_bpe")(text(draw, LENGTH), MERGES)


# --- there and back ------------------------------------------------------------------------------


@promise("encode", points=5, hint="for i, pair in enumerate(merges): merge it into 256 + i.")
def test_encode(code: Student, draw: Draw) -> Cases:
    """The merges are made in their order, each one everywhere."""
    for _ in range(3):
        tokens = code.function("encode")(text(draw, LENGTH), random_merges(draw))
        yield "the tokens", tokens


@promise("encode", points=2, hint="list(data) has a number for each byte.")
def test_encode_any(code: Student, draw: Draw) -> Cases:
    """Any bytes can be encoded, and there may be no bytes or no merges."""
    data = bytes(int(i) for i in draw.permutation(256))
    yield "all bytes", code.function("encode")(data, [(data[7], data[8]), (data[9], 256)])
    yield "no merges", code.function("encode")(text(draw, 9), [])
    yield "no bytes", code.function("encode")(b"", random_merges(draw))


@promise(
    "decode",
    points=5,
    hint="The bytes of a token are the bytes of its left token, then the bytes of its right token.",
)
def test_decode(code: Student, draw: Draw) -> Cases:
    """Each token becomes the bytes that it was merged from, however many merges that took."""
    merges = random_merges(draw)
    tokens = [draw.choice(LETTERS), *(256 + int(i) for i in draw.permutation(len(merges)))]
    yield "the bytes", code.function("decode")(tokens, merges)
    yield "no tokens", code.function("decode")([], merges)


@promise("decode", points=2, hint="Stay with bytes, and never go by way of str.")
def test_decode_any(code: Student, draw: Draw) -> Cases:
    """The bytes need not be valid UTF-8."""
    tokens = [int(i) for i in draw.permutation(256)]
    merges = [(tokens[0], 255), (128, 256)]
    yield "the bytes", code.function("decode")([*tokens, 257, 256], merges)


# --- helpers of the tests ------------------------------------------------------------------------


def text(draw: Draw, length: int) -> bytes:
    return bytes(draw.choice(LETTERS) for _ in range(length))


def random_merges(draw: Draw) -> list[tuple[int, int]]:
    """Draw merges of letters with letters and with tokens of earlier merges."""
    merges: list[tuple[int, int]] = []
    while len(merges) < MERGES:
        known = [*LETTERS, *range(256, 256 + len(merges))]
        pair = draw.choice(LETTERS), draw.choice(known)
        pair = pair if draw.size(0, 2) else pair[::-1]
        if pair not in merges:
            merges.append(pair)
    return merges


def blocks(draw: Draw) -> bytes:
    """Draw blocks like abab, each kind a different number of times, between bytes that occur once."""
    letters = [int(i) for i in draw.permutation(256)]
    kinds = [[*letters[i : i + 2]] * 2 for i in (0, 2, 4)]
    all_blocks = [
        block for block, count in zip(kinds, (8, 5, 3), strict=True) for _ in range(count)
    ]
    order = draw.permutation(len(all_blocks))
    return bytes(
        n
        for i, block in zip(range(6, 99), order, strict=False)
        for n in (*all_blocks[block], letters[i])
    )
