"""Comparing the files of one exercise: the nearest pairs, their similarity, and their shared lines."""

from __future__ import annotations

import hashlib

import pytest

from grader.gradebook.similarity.comparison import Comparison, SourceFile
from grader.gradebook.similarity.fingerprints import Reader

STUB = "def train(model, data):\n    raise NotImplementedError\n"
# Each is long enough to be compared, and they have little in common.
LOOP = """
for x, y in data:
    loss = model(x).sub(y).square().mean()
    loss.backward()
    for p in model.parameters():
        p.data.add_(p.grad, alpha=-0.1)
    history[step % 10] += loss.item() / len(x)
"""
COUNT = """
best = max(enumerate(counts.items()), key=lambda pair: pair[1][1])
while best[1][1] > limit and len(names) < 30:
    names.append(best[0] % 7)
    if any(name // 2 in names for name in names):
        raise ValueError(names)
"""
TEXT = """
words = open(path).read().lower().strip().split()
table = {word: [i for i, w in enumerate(words) if w == word] for word in set(words)}
print(sorted(table, key=table.get, reverse=True)[:10], file=log)
assert not (table.keys() - allowed) or strict is None
"""


def compared(*sources: str, stub: str = STUB) -> Comparison:
    reader = Reader(stub.encode())
    files = [
        SourceFile(f"s{n}", hashlib.sha256(s.encode()).hexdigest(), reader.read(s.encode()))
        for n, s in enumerate(sources)
    ]
    return Comparison(files, reader.read(stub.encode()))


def test_equal_files_have_similarity_1_and_unrelated_ones_0() -> None:
    found = compared(LOOP, COUNT, LOOP)
    assert found.similarity(0, 2) == 1.0
    assert found.similarity(0, 1) == 0.0


def test_a_file_contained_in_a_larger_one_has_similarity_1() -> None:
    found = compared(LOOP, LOOP + COUNT, COUNT + TEXT)
    assert found.similarity(0, 1) == found.similarity(1, 0) == 1.0
    assert 0.3 < found.similarity(1, 2) < 0.8


def test_each_nearest_pair_is_listed_once_with_its_similarity() -> None:
    found = compared(LOOP, COUNT, LOOP + TEXT, COUNT)
    pairs = {(left, right): share for left, right, share in found.nearest()}
    assert pairs == {(0, 2): found.similarity(0, 2), (1, 3): 1.0}


def test_between_two_groups_only_pairs_across_them_are_listed() -> None:
    found = compared(LOOP, LOOP, LOOP)
    assert [pair[:2] for pair in found.nearest()] == [(0, 1), (0, 2), (1, 2)]
    assert [pair[:2] for pair in found.nearest(first=1)] == [(0, 1), (0, 2)]


def test_code_from_the_stub_does_not_count() -> None:
    given = STUB + LOOP
    found = compared(given, given + COUNT, given + TEXT, stub=given)
    assert found.is_short.tolist() == [True, False, False]
    as_their_own = compared(given, given + COUNT, given + TEXT, "x = 1\n")
    # Where the stub ends, a run may include a token of their own code.
    assert found.similarity(1, 2) < 0.2 < as_their_own.similarity(1, 2)


def test_a_file_with_little_own_code_is_not_compared() -> None:
    found = compared("x = 1\n", "x = 1\n", LOOP)
    assert found.is_short.tolist() == [True, True, False]
    assert list(found.nearest()) == []


def test_code_that_the_whole_class_shares_weighs_less() -> None:
    few = compared(LOOP + COUNT, LOOP + TEXT, LOOP + "x = 1\n" * 20)
    many = compared(LOOP + COUNT, LOOP + TEXT, *[LOOP + f"y{n} = {n}\n" * 20 for n in range(9)])
    assert many.similarity(0, 1) < few.similarity(0, 1)


def test_shared_lines_are_numbered_in_each_file() -> None:
    found = compared(LOOP + COUNT, "import torch\n\n\n" + COUNT + TEXT, TEXT)
    count = LOOP.count("\n") + 2
    assert found.shared_lines(0, 1) == ((count, count + 4),)
    assert found.shared_lines(1, 0) == ((5, 9),)


def test_lines_that_most_of_the_class_shares_are_not_listed() -> None:
    found = compared(*[LOOP + f"z{n} = {n}\n" for n in range(6)])
    assert found.shared_lines(0, 1) == ()


@pytest.mark.parametrize("sources", [(), (LOOP,), ("", "")])
def test_no_comparable_files_give_no_pairs(sources: tuple[str, ...]) -> None:
    assert list(compared(*sources).nearest()) == []
