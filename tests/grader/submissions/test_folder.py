"""Ids keep people's names; file names made from them never collide."""

from __future__ import annotations

import doctest
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.cli.terminal.console import some_of
from grader.submissions import folder, safe_name
from grader.submissions.folder import normalized
from grader.text import clean, listed, listed_names

HOSTILE = [
    "=cmd()",
    "<script>alert(1)</script>",
    "../../etc/passwd",
    "/absolute",
    "..",
    ".",
    "",
    "CON",
    "con",
    "nul.txt",
    "com1",
    "a" * 5000,
    "a" * 5000 + "b",
    "Alice",
    "alice",
    "ALICE",
    "alice.",
    "-rf",
    "name\nwith lines",
    "\u202egpj.exe",
    "caf\u00e9",
    "cafe\u0301",
    "caf\udce9",
    "日本語",
    "a~b",
    "x" * 100,
    "x" * 101,
]


@pytest.mark.parametrize("student_id", ["alice", "123456", "jane.doe@uni.edu", "a_b-c+d", "7"])
def test_an_ordinary_id_is_its_own_file_name(student_id: str) -> None:
    assert safe_name(student_id) == student_id


def test_hostile_ids_give_safe_and_distinct_file_names() -> None:
    made = [safe_name(each) for each in HOSTILE]
    assert len({name.casefold() for name in made}) == len(HOSTILE)
    for name in made:
        assert re.fullmatch(r"[a-z0-9][a-z0-9._@+~-]*", name)
        assert len(name) <= 100
        assert not name.endswith(".")
        assert name.partition(".")[0] not in ("con", "nul", "com1", "prn", "aux")


@given(st.text(), st.text())
def test_two_ids_never_share_a_file_name(one: str, other: str) -> None:
    assert (safe_name(one) == safe_name(other)) == (one == other)
    assert (safe_name(one).casefold() == safe_name(other).casefold()) == (one == other)


@given(st.text() | st.binary().map(lambda raw: raw.decode("utf-8", "surrogateescape")))
def test_a_written_id_can_be_encoded_and_is_one_line(text: str) -> None:
    assert len(normalized(text).encode("utf-8").splitlines()) <= 1
    assert len(normalized(text).splitlines()) <= 1
    assert normalized(normalized(text)) == normalized(text)
    clean(text).encode("utf-8")
    assert clean(text).isprintable()


def test_an_id_keeps_the_persons_name() -> None:
    assert normalized("=SUM(A1) <b>René</b> \u202e") == "=SUM(A1) <b>René</b> \u202e"
    assert normalized("Rene\u0301") == "René"
    assert normalized("a\x00b\x1b[31m") == "a\ufffdb\ufffd[31m"
    assert normalized("a" * 2000) != normalized("a" * 2001)


def test_names_with_commas_are_told_apart() -> None:
    assert listed_names(["Doe, Jane", "Li, Kim"], 1) == "Doe, Jane and 1 more"
    for join in (listed_names, listed):
        assert "Doe, Jane; Li, Kim" in join(["Doe, Jane", "Li, Kim", "x"])
    assert some_of(["Doe, Jane", "Li, Kim"], 2) == "Doe, Jane; Li, Kim"


def test_the_example_in_the_docstring_works() -> None:
    assert doctest.testmod(folder).failed == 0
    assert safe_name("Alice Doe") == "alice-doe~b27a79f51bfff1ae0c4e1c19"  # as in old gradebooks
