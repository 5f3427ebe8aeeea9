"""The catalogue is consistent: every attack names its aim, and contains none of its targets."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from grader.audit.auditor import hidden_canaries
from grader.audit.catalogue import (
    CATALOGUE,
    CLASSES,
    Attack,
    Proof,
    arm,
    read_catalogue,
)
from grader.course.manifest import load_course
from grader.errors import CourseError
from grader.submissions.source import is_untouched

ATTACKS = read_catalogue(CATALOGUE)


def test_each_class_has_enough_attacks() -> None:
    counted = Counter(attack.kind for attack in ATTACKS)
    assert len(ATTACKS) >= 65
    assert set(counted) == set(CLASSES)
    assert min(counted.values()) >= 9


def test_no_two_attacks_share_a_name() -> None:
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS)


def test_an_attack_contains_no_canary() -> None:
    hidden = hidden_canaries(load_course(CATALOGUE / "course"))
    assert set(hidden) == {"suite", "solution"}
    for attack in ATTACKS:
        assert not [text for text in hidden.values() if text.encode() in attack.source], attack.name


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_an_attack_can_be_armed(attack: Attack) -> None:
    armed = arm(attack, {"pid": 1, "trophy": "x'\n"})
    assert armed.count(b"\n") == attack.source.count(b"\n")
    assert isinstance(ast.parse(armed).body[0], ast.ClassDef)


def test_an_attack_on_a_reader_of_the_source_is_real() -> None:
    (attack,) = read_catalogue(CATALOGUE, ["literal_of_many_digits"])
    with pytest.raises(ValueError, match="4300 digits"):
        ast.dump(ast.parse(attack.source))
    assert not is_untouched(attack.source, b"def scale(): raise NotImplementedError")


@pytest.mark.parametrize(
    "first",
    [
        "",
        "import os",
        "# attack: it | class: reading | canary: score",
        "# attack: it | class: forging | canary: gold",
        "# attack: it | class: forging | canary: score | more: x",
    ],
)
def test_an_invalid_header_is_refused(tmp_path: Path, first: str) -> None:
    (tmp_path / "forging").mkdir()
    (tmp_path / "forging" / "odd.py").write_text(f"{first}\n")
    with pytest.raises(CourseError, match=r"odd\.py"):
        read_catalogue(tmp_path)


def test_an_unknown_name_and_a_missing_catalogue_are_reported(tmp_path: Path) -> None:
    with pytest.raises(CourseError, match="no attack 'nothing'"):
        read_catalogue(CATALOGUE, ["nothing"])
    with pytest.raises(CourseError, match="holds no attacks"):
        read_catalogue(tmp_path)


def test_every_kind_of_evidence_is_used() -> None:
    assert {attack.proof for attack in ATTACKS} == set(Proof)
