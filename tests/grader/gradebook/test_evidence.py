"""The usual similarity of a class and its unusual pairs, computed from given numbers."""

from __future__ import annotations

import math
import random

import pytest

from grader.gradebook.similarity.evidence import (
    LEAST_FILES,
    Pair,
    joint_evidence,
    learned_bulk,
    learned_sum,
)

STUDENTS = [f"s{n:02}" for n in range(20)]
PAIRS: list[Pair] = [(a, b) for a in STUDENTS for b in STUDENTS if a < b]


def independent(center: float, spread: float, count: int = 400) -> list[float]:
    """Return similarities of a class in which nobody copied."""
    chance = random.Random(1)
    return [min(max(chance.gauss(center, spread), 0.0), 1.0) for _ in range(count)]


def test_the_bulk_ends_above_every_similarity_of_an_honest_class() -> None:
    similarities = independent(0.3, 0.05)
    bulk = learned_bulk(similarities, len(PAIRS))
    assert bulk.median == pytest.approx(0.3, abs=0.02)
    assert max(similarities) < bulk.end < 0.6


def test_a_few_copies_do_not_move_the_bulk() -> None:
    honest = independent(0.3, 0.05)
    copied = [*honest[20:], *[0.95] * 20]
    ends = [learned_bulk(each, len(PAIRS)).end for each in (honest, copied)]
    assert ends[1] == pytest.approx(ends[0], abs=0.05)
    assert ends[1] < 0.95


def test_more_pairs_raise_the_end_of_the_bulk() -> None:
    similarities = independent(0.3, 0.05)
    ends = [learned_bulk(similarities, pairs).end for pairs in (10, 1_000, 100_000)]
    assert ends == sorted(ends) and ends[0] < ends[2]


def test_nearly_equal_files_put_the_end_of_the_bulk_at_1() -> None:
    assert learned_bulk(independent(0.97, 0.02), len(PAIRS)).end == 1.0


def test_equal_similarities_still_have_a_spread() -> None:
    bulk = learned_bulk([0.5] * 100, len(PAIRS))
    assert bulk.median == 0.5 < bulk.end < 0.8


def test_only_the_most_similar_pairs_count_and_the_first_counts_most() -> None:
    shares = {pair: 1 - place / 1000 for place, pair in enumerate(PAIRS)}
    evidence = joint_evidence({"glu": shares}, {"glu": len(STUDENTS)})
    # A twentieth of 190 pairs is 9.5.
    assert list(evidence) == PAIRS[:9]
    counts = [evidence[pair]["glu"] for pair in PAIRS[:9]]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] == pytest.approx(math.log(9.5))


def test_equally_similar_pairs_share_evidence_and_too_many_give_none() -> None:
    shares = dict.fromkeys(PAIRS[:3], 0.9) | dict.fromkeys(PAIRS[3:], 0.2)
    evidence = joint_evidence({"glu": shares}, {"glu": len(STUDENTS)})
    assert {pair: counts["glu"] for pair, counts in evidence.items()} == dict.fromkeys(
        PAIRS[:3], pytest.approx(math.log(9.5 / 3))
    )
    assert joint_evidence({"glu": dict.fromkeys(PAIRS, 0.9)}, {"glu": len(STUDENTS)}) == {}


def test_evidence_of_several_exercises_is_kept_for_each() -> None:
    shares = {PAIRS[0]: 0.9, PAIRS[1]: 0.8}
    files = dict.fromkeys(("glu", "gelu"), len(STUDENTS))
    evidence = joint_evidence({"glu": shares, "gelu": {PAIRS[1]: 0.7}}, files)
    assert evidence.keys() == {PAIRS[0], PAIRS[1]}
    assert evidence[PAIRS[1]].keys() == {"glu", "gelu"}


def test_the_usual_sum_exceeds_what_one_exercise_can_give() -> None:
    most_of_one = math.log(0.05 * len(PAIRS))
    assert learned_sum({}, STUDENTS) >= most_of_one
    # If every student is moderately similar to another, a higher sum is usual.
    pairs = zip(STUDENTS[::2], STUDENTS[1::2], strict=True)
    everybody = {pair: {"glu": 2.0, "gelu": 2.0, "fit": 2.0} for pair in pairs}
    assert learned_sum(everybody, STUDENTS) > 6.0


def test_one_pair_does_not_change_the_usual_sum() -> None:
    pair = {PAIRS[0]: {f"e{n}": 3.0 for n in range(10)}}
    assert learned_sum(pair, STUDENTS) == learned_sum({}, STUDENTS) < 30.0


def test_a_small_class_has_no_usual_sum() -> None:
    assert learned_sum({}, STUDENTS[: LEAST_FILES - 1]) == math.inf
    assert learned_sum({}, STUDENTS[:LEAST_FILES]) < math.inf
