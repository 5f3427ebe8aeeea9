"""Write the report: two pages for each student as the entries come by, then the pages of the class."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from grader.errors import not_written
from grader.exports.disclosure import disclosed
from grader.exports.files import README, refuse_foreign
from grader.exports.report import triage
from grader.exports.report.overview import FEWEST_STUDENTS, ExerciseView, chapters, figures
from grader.exports.report.render import Renderer, page_name
from grader.exports.report.tally import Tally
from grader.gradebook.review import Attention, Reason, by_student
from grader.gradebook.similarity.findings import Similarity, SimilarPair, source_digest
from grader.results import CourseInfo, Disclosure, Entry, ExerciseResult

History = Mapping[str, Sequence[ExerciseResult]]

_SHOWN_ATTENTION = 200
# Exercises side by side in the table of students; if there are more, chapters are shown instead.
_MAX_COLUMNS = 8
_FIRST_LINE = "A report of Lab Bench."
_DRAFT = ".draft-"
_PARTS = ("staff", "students", README)


class Written(msgspec.Struct, frozen=True):
    """A written report: the page to open first, and the number of students."""

    index: Path
    students: int


def write_report(
    entries: Iterable[Entry],
    folder: Path,
    *,
    sources: Callable[[Entry], Mapping[str, bytes]],
    similarity: Similarity | None = None,
    title: str = "",
    attempts: Mapping[str, int] | None = None,
    attention: Sequence[Attention] = (),
    history: Callable[[Entry], History] = lambda _: {},
    before: Mapping[str, float] | None = None,
    disclose: Disclosure | None = None,
    unfinished: str = "",
) -> Written:
    """Write the report of a class into `folder`, in the place of an earlier one.

    Args:
        entries: one for each student; each is read once and then forgotten.
        folder: does not exist yet, is empty, or holds an earlier report.
        sources: returns the files of an entry, by exercise.
        similarity: the alike pairs, if `grade similar` was run.
        title: the title of the course.
        attempts: the number of attempts, by student id; by default the entry's own.
        attention: things for a person to look at.
        history: returns the verdicts on different files of an entry's exercises, oldest first.
        before: the totals of the last grading, by student id.
        disclose: how much students read of hidden tests; by default as the course says.
        unfinished: a warning if a grading did not finish.

    Raises:
        SubmissionError: the folder contains something else.
        GraderError: the folder cannot be written.
    """
    refuse_foreign(folder, _FIRST_LINE, "a report", _DRAFT)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # In the same folder: the old report stays whole until the last page is written.
        for old in folder.glob(f"{_DRAFT}*"):  # left by a killed run
            shutil.rmtree(old)
        draft = Path(tempfile.mkdtemp(prefix=_DRAFT, dir=folder))
        try:
            site = _Site(
                draft,
                title,
                sources,
                similarity,
                attempts or {},
                attention,
                before or {},
                disclose,
                unfinished,
            )
            for entry in entries:
                site.add(entry, history(entry))
            site.finish()
            for part in _PARTS:
                old = folder / part
                if old.is_dir() and not old.is_symlink():
                    shutil.rmtree(old)
                (draft / part).replace(old)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    except OSError as error:
        raise not_written(folder, error) from error
    return Written(folder / "staff" / "index.html", len(site.tally.rows))


@dataclasses.dataclass
class _Site:
    """A report in the making."""

    folder: Path
    title: str
    sources: Callable[[Entry], Mapping[str, bytes]]
    similarity: Similarity | None
    attempts: Mapping[str, int]
    attention: Sequence[Attention]
    before: Mapping[str, float]
    disclose: Disclosure | None
    unfinished: str

    def __post_init__(self) -> None:
        self.tally, self._renderer = Tally(), Renderer()
        self._stuck: dict[str, tuple[triage.Stuck, ...]] = {}
        # The times, seeds and graders of the results.
        self._graded: set[tuple[str, int, str]] = set()
        # Each pair, with the name of its page.
        self._pairs = [
            (page_name(f"{pair.exercise}-{number}"), pair)
            for number, pair in enumerate(self.similarity.pairs if self.similarity else (), 1)
        ]
        self._pairs_of = defaultdict[str, list[tuple[str, SimilarPair]]](list)
        for name, pair in self._pairs:
            self._pairs_of[pair.left].append((name, pair))
            self._pairs_of[pair.right].append((name, pair))
        self._paired: dict[tuple[str, str], bytes] = {}
        # Faults are listed beside the verdicts.
        self.attention = [entry for entry in self.attention if entry.kind is not Reason.FAULT]
        self._attention_of = defaultdict[str, list[Attention]](list)
        for entry in self.attention:
            self._attention_of[entry.student].append(entry)
        self._course = CourseInfo(name="", version="", digest="")
        for name in ("students", "staff/students", "staff/exercises", "staff/alike"):
            (self.folder / name).mkdir(parents=True)

    def add(self, entry: Entry, history: History) -> None:
        """Write the pages of a student."""
        result = entry.result
        self._course, self._renderer.timezone = result.course, entry.timezone
        self._graded.add((result.started_at, result.seed, result.environment.grader))
        if stuck := triage.stuck_at(history):
            self._stuck[entry.student.id] = stuck
        student, page = entry.student, page_name(entry.student.id)
        sources, pairs = self.sources(entry), self._pairs_of.get(student.id, [])
        for _, pair in pairs:
            if pair.exercise in sources:
                self._paired[student.id, pair.exercise] = sources[pair.exercise]
        attempts = self.attempts.get(student.id, entry.attempt)
        row = self.tally.add(entry, attempts=attempts, alike=len(pairs), files=sources)
        title = self.title or result.course.name
        self._renderer.write(
            self.folder / "students" / page,
            "student.html",
            title=title,
            entry=disclosed(entry, self.disclose),
            chapters=row.chapters,
        )
        self._renderer.write(
            self.folder / "staff" / "students" / page,
            "staff_student.html",
            title=title,
            entry=entry,
            row=row,
            before=self.before.get(student.id),
            stuck=stuck,
            sources=sources,
            pairs=pairs,
            attention=self._attention_of.get(student.id, []),
        )

    def finish(self) -> None:
        """Write the pages of the class."""
        views = [ExerciseView(self.tally, tally) for tally in self.tally.exercises.values()]
        pairs = self._pairs
        times = [time for time, _, _ in self._graded] or [""]
        shared = {
            "title": self.title or self._course.name,
            "course": self._course,
            "people": {row.id: row for row in self.tally.rows},
            "rows": self.tally.rows,
            "fewest": FEWEST_STUDENTS,
            "low": triage.LOW,
            "tries": triage.FEWEST_TRIES,
            "weakest": triage.WEAK,
        }
        worried = triage.worries(self.tally, self._stuck, self.before)
        staff = self.folder / "staff"
        for view in views:
            self._renderer.write(
                staff / "exercises" / page_name(view.name),
                "exercise.html",
                exercise=view,
                pairs=[(name, pair) for name, pair in pairs if pair.exercise == view.name],
                **shared,
            )
        for name, pair in pairs:
            self._renderer.write(
                staff / "alike" / name, "alike.html", **self._alike(pair), **shared
            )
        self._renderer.write(
            staff / "index.html",
            "index.html",
            figures=figures(self.tally),
            unfinished=self.unfinished,
            graded={
                "first": min(times),
                "last": max(times),
                "seeds": {seed for _, seed, _ in self._graded},
                "graders": {grader for _, _, grader in self._graded},
            },
            worries=worried,
            worried={worry.row.id for worry in worried},
            before=self.before,
            sections=triage.sections(self.tally),
            sections_of=triage.sections_of(self.tally.rows),
            common=triage.class_mistakes(views),
            weak=triage.weak_tests(views),
            chapters=chapters(self.tally, views),
            folded=len(views) > _MAX_COLUMNS,
            pairs=pairs,
            similarity=self.similarity,
            attention=by_student(self.attention, _SHOWN_ATTENTION),
            places=len(self.attention),
            to_look_at=self._attention_of.keys(),
            **shared,
        )
        (self.folder / README).write_text(_README_TEXT, encoding="utf-8")

    def _alike(self, pair: SimilarPair) -> dict[str, object]:
        """Return the two files of a pair; lines are marked only if the file is unchanged."""
        sides = []
        for student, lines, digest in (
            (pair.left, pair.left_lines, pair.left_digest),
            (pair.right, pair.right_lines, pair.right_digest),
        ):
            source = self._paired.get((student, pair.exercise), b"")
            same = source_digest(source) == digest
            marked = {n for first, last in lines for n in range(first, last + 1)} if same else set()
            side = {"student": student, "source": source, "lines": lines, "same": same}
            sides.append({**side, "marked": marked})
        return {"pair": pair, "sides": sides}


_README_TEXT = f"""\
{_FIRST_LINE}

staff/index.html   begin here. For staff only: names, code, hidden tests, everything.
staff/             never send or publish anything in it.
students/          one self-contained page for each student. Send each student only their own page:
                   it names no other student, and shows only as much of hidden tests as students may read.
                   The folder as a whole is a list of the class; do not publish it.

Open the pages in any browser; nothing is loaded from a network. `grade report` writes both folders
anew.
"""
