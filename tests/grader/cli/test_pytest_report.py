"""Plain pytest with pytest-json-report and `grade run --pytest-report` write the same report."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.grader.cli.conftest import Grade

pytestmark = pytest.mark.thorough

FILE = Path("exercises", "text", "word_count.py")
RIGHT = "solutions/text/word_count.py"
CRASHING = "import os\n\ndef word_count(text):\n    os._exit(3)\n\ndef most_common(text, n):\n    return []\n"
LOOPING = "def word_count(text):\n    while True:\n        pass\n\ndef most_common(text, n):\n    return []\n"


def run_pytest(course: Path, *arguments: str) -> dict[str, Any]:
    """Run plain pytest and return its report."""
    report = course / "plain.json"
    command = [
        "-m",
        "pytest",
        "-p",
        "grader.judge.plain",
        "--import-mode=importlib",
        "-p",
        "no:cacheprovider",
    ]
    options = ["--json-report", "--json-report-file", str(report), "--submission", "exercises"]
    done = subprocess.run(
        [sys.executable, *command, *options, *arguments],
        cwd=course,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return dict(json.loads(report.read_bytes()))


def items_in(report: dict[str, Any]) -> dict[str, Any]:
    """Map each test to everything that both reports must agree on.

    Of a time-out, the message and place may differ: under plain pytest each suite has the time of both.
    """
    items = {}
    for item in report["tests"]:
        if item["metadata"]["result"] == "timeout":
            item["metadata"] |= {"message": "", "place": None}
        items[item["nodeid"]] = item["outcome"], item["call"]["outcome"], item["metadata"]
    return items


# From the wrong answer characters.py. Plain pytest runs no wrong answers to recognize a mistake.
SENTENCE = "You counted characters: split the text first.\n"


def unnamed(items: dict[str, Any]) -> dict[str, Any]:
    """Remove the sentence of a known mistake from the items of hidden tests."""
    for name, (_, _, metadata) in items.items():
        if name.startswith("tests/hidden"):
            metadata["message"] = metadata["message"].removeprefix(SENTENCE)
    return items


@pytest.mark.parametrize(
    ("source", "status"),
    [
        (RIGHT, "passed"),
        ("tests/wrong/text/word_count/characters.py", "partial"),
        (CRASHING, "failed"),
        (LOOPING, "timeout"),
    ],
    ids=["right", "wrong", "crashing", "looping"],
)
def test_both_reports_are_alike(grade: Grade, clone: Path, source: str, status: str) -> None:
    text = (clone / source).read_text() if source.endswith(".py") else source
    (clone / FILE).write_text(text, encoding="utf-8")
    if source == LOOPING:
        manifest = clone / "exercises/course.toml"
        text = manifest.read_text("utf-8")
        manifest.write_text(text.replace("seconds = 8", "seconds = 2"), encoding="utf-8")
    suites = [f"tests/{kind}/text/test_word_count.py" for kind in ("public", "hidden")]
    plain = run_pytest(clone, *suites)
    judged = clone / "judged.json"
    grade("run", "word_count", "--pytest-report", judged, cwd=clone)
    ours = json.loads(judged.read_bytes())
    assert items_in(plain) == unnamed(items_in(ours))
    for key in ("exercises", "score", "max_score", "exitcode", "root"):
        assert plain[key] == ours[key]
    assert set(ours) <= set(plain)
    counts = {key: count for key, count in plain["summary"].items() if count}
    assert counts == {key: count for key, count in ours["summary"].items() if count}
    (exercise,) = ours["exercises"]
    assert (exercise["name"], exercise["status"]) == ("word_count", status)


def test_a_mistake_that_is_carried_forward_costs_once_in_both(grade: Grade, clone: Path) -> None:
    manifest = clone / "exercises/course.toml"
    text = manifest.read_text("utf-8")
    key = "builds_on = { most_common = ['word_count'] }"
    text = text.replace('id = "word_count"', f'id = "word_count"\n{key}')
    manifest.write_text(text, encoding="utf-8")
    right = (clone / "solutions/text/word_count.py").read_text("utf-8")
    (clone / FILE).write_text(right.replace(".get(word, 0) + 1", ".get(word, 9)"), encoding="utf-8")
    plain = run_pytest(clone, "tests/public/text/test_word_count.py")
    judged = clone / "judged.json"
    grade("run", "word_count", "--pytest-report", judged, cwd=clone)
    ours = items_in(json.loads(judged.read_bytes()))
    outcomes = {name.partition("::")[2]: item[0] for name, item in items_in(plain).items()}
    assert outcomes == {"test_counts": "failed", "test_most_common": "passed"}
    assert all(ours[name][0] == item[0] for name, item in items_in(plain).items())


def test_in_a_release_plain_pytest_judges_the_exercises(
    grade: Grade, clone: Path, tmp_path: Path
) -> None:
    released = tmp_path / "released"
    assert grade("release", released, cwd=clone).returncode == 0
    (released / FILE).write_bytes((clone / RIGHT).read_bytes())
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rA"],
        cwd=released,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )
    outcomes = dict(re.findall(r"^([A-Z]+) tests/public/text/(\S+)::", done.stdout, re.MULTILINE))
    assert outcomes == {"PASSED": "test_word_count.py", "FAILED": "test_greeting.py"}


def test_an_unwritable_report_is_refused_before_anything_runs(grade: Grade, clone: Path) -> None:
    done = grade("run", "word_count", "--pytest-report", clone / "no" / "x.json", cwd=clone)
    assert done.returncode == 2
    assert "There is no folder" in done.stderr
