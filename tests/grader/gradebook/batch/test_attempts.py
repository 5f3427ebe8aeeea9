"""Several downloads in one gradebook, with the real commands: which attempt counts, and why."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import pytest

from grader.gradebook import Gradebook
from grader.gradebook.policy_file import read_policy
from grader.gradebook.review import Reason
from grader.results import Entry, Status
from tests.grader.command import grade

PLAIN = Path(__file__).parents[2] / "courses" / "plain"
SOLUTIONS = PLAIN / "solutions"
GREETING = (SOLUTIONS / "text" / "greeting.py").read_text()
WRONG = GREETING.replace("Hello", "Hallo")
MEAN = (SOLUTIONS / "arrays" / "running_mean.py").read_text()
ROSTER = "id,name\nada,Ada Lovelace\nzed,Zed Zulu\n"


class Term:
    """The plain course with a gradebook, and downloads made by tests."""

    def __init__(self, folder: Path) -> None:
        self.course, self.results = folder / "course", folder / "results"
        shutil.copytree(PLAIN, self.course)
        self._folder = folder

    def download(self, name: str, files: dict[str, str], at: str = "") -> Path:
        """Make a download of Ada's submission: a folder of folders or, with a time, an export of Gradescope."""
        folder = self._folder / name
        for file, source in files.items():
            path = folder / (f"submission_{name[1:]}" if at else "ada") / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source)
        if at:
            (folder / "submission_metadata.yml").write_text(
                f"---\nsubmission_{name[1:]}:\n  :submitters:\n  - :name: Ada Lovelace\n"
                f"    :sid: ada\n    :email: ada@uni.edu\n  :created_at: {at} 10:00:00.000000000 Z\n"
            )
        return folder

    def grade(self, *arguments: str | Path) -> str:
        """Run a command that must succeed, and return its output on one line."""
        done = grade(*arguments, cwd=self.course)
        assert done.returncode == 0, done.stderr
        return " ".join(done.stdout.split())

    def batch(self, download: Path, *options: str | Path) -> str:
        return self.grade("batch", download, "-o", self.results, *options)

    def rows(self) -> dict[str, dict[str, str]]:
        """Return the exported rows of the class by student."""
        out = self._folder / "grades.csv"
        self.grade("export", self.results, "--format", "csv", "-o", out)
        return {row["student"]: row for row in csv.DictReader(io.StringIO(out.read_text()))}

    def ada(self) -> Entry:
        with Gradebook.open(self.results) as book:
            entry = book.entry_of("ada")
        assert entry is not None
        return entry


@pytest.fixture
def term(tmp_path: Path) -> Term:
    return Term(tmp_path)


def test_an_older_download_is_noted_and_replaces_nothing(term: Term) -> None:
    first = term.download("d1", {"text/greeting.py": WRONG}, "2026-03-01")
    second = term.download("d2", {"text/greeting.py": GREETING}, "2026-03-02")
    outputs = [term.batch(each, "--exercise", "greeting") for each in (first, second, first)]
    assert ["newer attempt than this download" in each for each in outputs] == [False, False, True]
    assert "(ada, Ada Lovelace)" in outputs[2]
    assert not any("found last counts" in each for each in outputs)
    row = term.rows()["ada"]
    assert (row["total"], row["submitted_at"]) == ("2.5", "2026-03-02T10:00:00Z")
    # An older download that is new to the gradebook replaces nothing either.
    shutil.rmtree(term.results)
    for each in (second, first):
        outputs.append(term.batch(each, "--exercise", "greeting"))
    assert "newer attempt than this download" in outputs[-1]
    assert "0 exercises judged" in outputs[-1], "a file that cannot count is not judged"
    assert term.rows()["ada"]["total"] == "2.5"


def test_without_times_the_rule_is_explained(term: Term) -> None:
    first = term.download("d1", {"text/greeting.py": WRONG})
    second = term.download("d2", {"text/greeting.py": GREETING})
    outputs = [term.batch(each, "--exercise", "greeting") for each in (first, second, first)]
    assert ["the file found last counts" in each for each in outputs] == [False, True, True]
    assert "newer attempt than this download" in outputs[2]
    assert term.rows()["ada"]["total"] == "2.5"


def test_weekly_downloads_add_up_to_one_result(term: Term) -> None:
    roster = term.course / "class.csv"
    roster.write_text(ROSTER)
    first = term.download("d1", {"text/greeting.py": GREETING})
    second = term.download("d2", {"arrays/running_mean.py": MEAN})
    term.batch(first, "--roster", roster)
    assert term.ada().result.score == 2.5
    output = term.batch(second, "--roster", roster)
    assert "1 exercise judged" in output and "found last" not in output, "no rule was needed"
    rows = term.rows()
    assert (rows["ada"]["text/greeting"], rows["ada"]["arrays/running_mean"]) == ("2.5", "7.5")
    assert (rows["ada"]["text/word_count"], rows["ada"]["total"]) == ("0", "10")
    zed = rows["zed"]
    assert (zed["attempt"], zed["submitted_at"], zed["late"]) == ("0", "", "no")
    assert (zed["total"], zed["max_score"], zed["status"]) == ("0", "20", "nothing_handed_in")
    assert {zed[f"text/{name}"] for name in ("greeting", "word_count")} == {"0"}
    for student in ("ada", "zed"):
        written = json.loads((term.results / "results" / f"{student}.json").read_bytes())
        assert written["score"] == float(rows[student]["total"])
    # A regrade gives the same result.
    assert "0 gained, 0 lost" in term.grade("regrade", term.results)
    assert term.rows() == rows


def test_several_downloads_are_one_batch(term: Term) -> None:
    first = term.download("d1", {"text/greeting.py": WRONG})
    second = term.download("d2", {"text/greeting.py": GREETING, "arrays/running_mean.py": MEAN})
    (second / "bob" / "text").mkdir(parents=True)
    (second / "bob" / "text" / "greeting.py").write_text(GREETING)
    output = term.grade("batch", first, second, "-o", term.results)
    assert "2 exercises judged" in output and "found last counts" in output
    rows = term.rows()
    assert (rows["ada"]["total"], rows["ada"]["attempt"], rows["bob"]["total"]) == (
        "10",
        "2",
        "2.5",
    )


def test_an_unreadable_file_is_reported_and_the_earlier_one_counts(term: Term) -> None:
    term.batch(term.download("d1", {"text/greeting.py": GREETING}), "--exercise", "greeting")
    second = term.download("d2", {"text/greeting.py": "#" * 300_000})
    output = term.batch(second)
    assert "unreadable" in output and "Until then the file of an earlier attempt counts." in output
    assert term.rows()["ada"]["total"] == "2.5"


def test_grading_other_exercises_updates_every_result(term: Term) -> None:
    """Students without a submission for these exercises get a result for them, too."""
    term.batch(term.download("d1", {"text/greeting.py": GREETING}), "--exercise", "greeting")
    other = term.download("d2", {})
    (other / "bob" / "arrays").mkdir(parents=True)
    (other / "bob" / "arrays" / "running_mean.py").write_text(MEAN)
    term.batch(other, "--exercise", "running_mean")
    rows = term.rows()
    assert (rows["ada"]["total"], rows["ada"]["max_score"]) == ("0", "7.5")
    assert rows["bob"]["total"] == "7.5"
    written = json.loads((term.results / "results" / "ada.json").read_bytes())
    assert [each["name"] for each in written["exercises"]] == ["running_mean"]
    assert written["exercises"][0]["message"] == "Nothing was handed in."


def test_only_attempts_that_the_policy_needs_are_judged(term: Term) -> None:
    downloads = [
        term.download("d1", {"text/greeting.py": GREETING}, "2026-03-01"),
        term.download("d2", {"text/greeting.py": WRONG}, "2026-03-02"),
        term.download("d3", {"text/greeting.py": WRONG + "# 3\n"}, "2026-03-03"),
    ]
    for each in reversed(downloads):
        term.batch(each, "--exercise", "greeting")
    assert term.rows()["ada"]["total"] == "0"
    (term.course / "exercises" / "policy.toml").write_text('attempts = "best"\n')
    # The two that could not count had no verdict until now.
    output = term.grade("regrade", term.results)
    assert (
        "3 attempts of 1 student: 2 exercises judged, 0 settled without a judge, 1 known" in output
    )
    assert term.rows()["ada"]["total"] == "2.5"
    mark = term.ada().result.exercises[0].mark
    assert mark is not None and (mark.judged, mark.submitted_at) == (2.5, "2026-03-01T10:00:00Z")
    assert "0 exercises judged" in term.batch(downloads[0])


def test_an_attempt_without_a_verdict_is_never_a_zero(term: Term) -> None:
    for day in (1, 2):
        files = {"text/greeting.py": GREETING + f"# {day}\n"}
        term.batch(term.download(f"d{day}", files, f"2026-03-0{3 - day}"), "--exercise", "greeting")
    policy = 'timezone = "UTC"\n[late]\ncloses = "1 hour"\n[[due]]\nat = 2026-03-01T12:00:00\n'
    with Gradebook.open_to_write(term.results) as book:
        book.set_policy(read_policy(policy).rules)
    # The newest file came too late, and the one before it was never judged.
    assert term.ada().result.exercises[0].status is Status.UNJUDGED
    assert term.rows()["ada"]["total"] == ""
    assert "1 exercise judged" in term.grade("regrade", term.results)
    assert term.rows()["ada"]["total"] == "2.5"


def test_a_stub_after_work_is_reported(tmp_path: Path) -> None:
    term = Term(tmp_path)
    stub = (PLAIN / "exercises" / "text" / "greeting.py").read_text()
    out = ("-o", term.results)
    first = term.grade(
        "batch", term.download("d1", {"text/greeting.py": GREETING}, "2026-10-01"), *out
    )
    assert "nothing is written" not in first
    second = term.grade(
        "batch", term.download("d2", {"text/greeting.py": stub}, "2026-10-02"), *out
    )
    assert "greeting: The newest file has no work, but an earlier attempt has" in second


def test_a_file_without_code_is_listed_until_a_newer_one_has_work(term: Term) -> None:
    def listed() -> set[tuple[str, ...]]:
        with Gradebook.open(term.results) as book:
            return {e.exercises for e in book.attention() if e.kind is Reason.NO_POINTS}

    first = {"greeting.py": "", "running_mean.py": MEAN[: MEAN.rindex("(") + 1]}
    told = term.batch(term.download("d1", first, at="2026-03-01"))
    assert "To look at: 2 no points" in told
    assert "greeting: The file is empty; its upload may have failed. (ada" in told
    assert "is not valid Python, so the file was not run. (ada" in told
    both = {("greeting",), ("running_mean",)}
    assert listed() == both
    term.grade("regrade", term.results)
    assert listed() == both
    term.batch(term.download("d2", {"greeting.py": GREETING}, at="2026-03-02"))
    assert listed() == {("running_mean",)}, "a later download has no file of it"
    term.batch(term.download("d3", {"running_mean.py": MEAN}, at="2026-03-03"))
    assert listed() == set()
