"""Gradescope's metadata, as written by Ruby and as written to attack."""

from __future__ import annotations

import io

import pytest

from grader.results import StudentInfo
from grader.submissions.folder import Unreadable
from grader.submissions.gradescope import Submission, read_metadata

METADATA = """\
---
submission_101:
  :submitters:
  - :name: "Jane \\u2603 Doe"
    :sid: '007'
    :email: jane@uni.edu
  - :name: Piet
    :sid:
    :email: piet@uni.edu
  :created_at: 2026-01-02 03:04:05.678901000 -05:00
  :score: 5.0
  :status: processed
  :history:
  - :id: 99
    :created_at: 2026-01-01 03:04:05.000000000 Z
    :submitters:
    - :name: Somebody else
  :results:
    output: |
      submission_102:
        :submitters:
        - :name: Forged
    tests:
    - name: x
      :name: y
submission_102:
  :submitters:
  - &anchor
    :name: ''
    :sid: ~
    :email: kim@uni.edu
  :created_at: 2026-01-02T03:04:05Z
"""


def test_only_submitters_and_times_are_read() -> None:
    assert read_metadata(io.BytesIO(METADATA.encode())) == {
        "submission_101": Submission(
            (
                StudentInfo(
                    id="007", name="Jane ☃ Doe", email="jane@uni.edu", ids={"gradescope_sid": "007"}
                ),
                StudentInfo(id="piet@uni.edu", name="Piet", email="piet@uni.edu"),
            ),
            "2026-01-02T08:04:05Z",
        ),
        "submission_102": Submission(
            (StudentInfo(id="kim@uni.edu", name="", email="kim@uni.edu"),), "2026-01-02T03:04:05Z"
        ),
    }


@pytest.mark.parametrize(
    "time", ["", "yesterday", "9999-99-99 00:00:00 Z", "2026-01-02", "0001-01-01 00:00:00 +23:59"]
)
def test_an_invalid_time_is_unknown(time: str) -> None:
    text = f"submission_1:\n  :submitters:\n  - :name: A\n  :created_at: {time}\n"
    assert read_metadata(io.BytesIO(text.encode()))["submission_1"].submitted_at == ""


def test_aliases_expand_to_nothing() -> None:
    laughs = ["a0: &a0 [x, x]"]
    laughs += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    text = "\n".join([*laughs, "submission_1:", "  :submitters:", "  - :name: *a0", "    :sid: 5"])
    (found,) = read_metadata(io.BytesIO(text.encode())).values()
    assert [student.id for student in found.students] == ["5"]


def test_tags_construct_nothing() -> None:
    text = "submission_1: !!python/object/apply:os.system ['echo']\n? [a, b]\n: {c: d}\n"
    assert read_metadata(io.BytesIO(text.encode())) == {}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a: [1, 2", "is not valid YAML in line"),
        (b"\xff\xfe\x00", "is not valid YAML"),
        (b"a: \x00", "is not valid YAML"),
        (b"[" * 10_000, "is nested too deeply"),
    ],
)
def test_unreadable_metadata_is_reported_in_one_sentence(data: bytes, message: str) -> None:
    with pytest.raises(Unreadable, match=message):
        read_metadata(io.BytesIO(data))
