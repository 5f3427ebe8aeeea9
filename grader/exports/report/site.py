"""Writing the report: two pages for each student as the entries come by, then the pages of the class."""

from __future__ import annotations

import shutil
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from grader.errors import GraderError, SubmissionError
from grader.exports.disclosure import disclosed
from grader.exports.report import triage
from grader.exports.report.overview import FEWEST_STUDENTS, ExerciseView, chapters, figures
from grader.exports.report.render import Renderer, page_name
from grader.exports.report.tally import Tally
from grader.gradebook.review import Attention, Reason, by_student
from grader.gradebook.similarity.findings import Similarity, SimilarPair, source_digest
from grader.results import CourseInfo, Disclosure, Entry, ExerciseResult

History = Mapping[str, Sequence[ExerciseResult]]

_SHOWN_ATTENTION = 200
# Exercises side by side in the table of students; more of them are folded into chapters.
_MOST_COLUMNS = 8
_README = "README.txt"
_FIRST_LINE = "A report of Lab Bench."
_DRAFT = ".draft-"
_PARTS = ("staff", "students", _README)


class Written(msgspec.Struct, frozen=True):
    """A written report: the page to open first, and how many students are in it."""

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
    done: Callable[[int], None] = lambda _: None,
) -> Written:
    """Write the report of a class into `folder`, in the place of an earlier one.

    Args:
        entries: one for each student; each is read once and let go of.
        folder: does not exist yet, is empty, or holds an earlier report.
        sources: gives the files of an entry, by exercise.
        similarity: the alike pairs, if they were looked for.
        title: of the course.
        attempts: by student id how many attempts there were; by default the entry's own.
        attention: the entries of the batch that a person should look at.
        history: gives of an entry's exercises the verdicts on different files, oldest first.
        before: the totals of the last grading, by student id.
        disclose: what students may read of hidden tests; by default what the course says.
        done: is called with the number of students that are written.

    Raises:
        SubmissionError: the folder holds something else, which stays as it is.
        GraderError: the folder cannot be written.
    """
    _refuse_what_is_no_report(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Beside what stands there: until the last page is written, the old report is whole.
        for old in folder.glob(f"{_DRAFT}*"):  # of one that was killed
            shutil.rmtree(old)
        draft = Path(tempfile.mkdtemp(prefix=_DRAFT, dir=folder))
        try:
            site = _Site(
                draft, title, sources, similarity, attempts or {}, attention, before or {}, disclose
            )
            for count, entry in enumerate(entries, start=1):
                site.add(entry, history(entry))
                done(count)
            site.finish()
            _replace(folder, draft)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    except OSError as error:
        raise GraderError(f"The report cannot be written to {folder}: {error.strerror}.") from error
    return Written(folder / "staff" / "index.html", len(site.tally.rows))


class _Graded:
    """By which grader, with which seed, and when a class was graded."""

    def __init__(self) -> None:
        self.first = self.last = ""
        self.seeds: set[int] = set()
        self.graders: set[str] = set()

    def add(self, entry: Entry) -> None:
        """Take in when and how one submission was graded."""
        result = entry.result
        self.first = min(self.first or result.started_at, result.started_at)
        self.last = max(self.last, result.started_at)
        self.seeds.add(result.seed)
        self.graders.add(result.environment.grader)


class _Site:
    """A report in the making."""

    def __init__(
        self,
        folder: Path,
        title: str,
        sources: Callable[[Entry], Mapping[str, bytes]],
        similarity: Similarity | None,
        attempts: Mapping[str, int],
        attention: Sequence[Attention],
        before: Mapping[str, float],
        disclose: Disclosure | None,
    ) -> None:
        self.tally = Tally()
        self._before, self._stuck = before, dict[str, tuple[triage.Stuck, ...]]()
        self._graded = _Graded()
        self._renderer = Renderer()
        self._folder, self._sources, self._attempts = folder, sources, attempts
        self._title, self._similarity, self._disclose = title, similarity, disclose
        # Each pair with the name of its page.
        self._pairs = [
            (page_name(f"{pair.exercise}-{number}"), pair)
            for number, pair in enumerate(similarity.pairs if similarity else (), start=1)
        ]
        self._pairs_of = defaultdict[str, list[tuple[str, SimilarPair]]](list)
        for name, pair in self._pairs:
            self._pairs_of[pair.left].append((name, pair))
            self._pairs_of[pair.right].append((name, pair))
        self._paired: dict[tuple[str, str], bytes] = {}
        # Faults stand where the verdicts are.
        self._attention = [entry for entry in attention if entry.kind is not Reason.FAULT]
        self._attention_of = defaultdict[str, list[Attention]](list)
        for entry in self._attention:
            self._attention_of[entry.student].append(entry)
        self._course: CourseInfo | None = None
        for name in ("students", "staff/students", "staff/exercises", "staff/alike"):
            (folder / name).mkdir(parents=True)

    def add(self, entry: Entry, history: History) -> None:
        """Write the pages of a student."""
        self._course = self._course or entry.result.course
        self._renderer.timezone = entry.timezone
        self._graded.add(entry)
        if stuck := triage.stuck_at(history):
            self._stuck[entry.student.id] = stuck
        student, page = entry.student, page_name(entry.student.id)
        sources, pairs = self._sources(entry), self._pairs_of.get(student.id, [])
        for _, pair in pairs:
            if pair.exercise in sources:
                self._paired[student.id, pair.exercise] = sources[pair.exercise]
        attempts = self._attempts.get(student.id, entry.attempt)
        row = self.tally.add(entry, attempts=attempts, alike=len(pairs), files=sources)
        title = self._title or entry.result.course.name
        self._renderer.write(
            self._folder / "students" / page,
            "student.html",
            title=title,
            entry=disclosed(entry, self._disclose),
            unjudged=row.unjudged,
            chapters=row.chapters,
        )
        self._renderer.write(
            self._folder / "staff" / "students" / page,
            "staff_student.html",
            title=title,
            entry=entry,
            row=row,
            before=self._before.get(student.id),
            stuck=stuck,
            sources=sources,
            pairs=pairs,
            attention=self._attention_of.get(student.id, []),
        )

    def finish(self) -> None:
        """Write the pages of the class."""
        course = self._course or CourseInfo(name="", version="", digest="")
        views = [ExerciseView(self.tally, tally) for tally in self.tally.exercises.values()]
        pairs = self._pairs
        shared = {
            "title": self._title or course.name,
            "course": course,
            "people": {row.id: row for row in self.tally.rows},
            "rows": self.tally.rows,
            "fewest": FEWEST_STUDENTS,
            "low": triage.LOW,
            "tries": triage.FEWEST_TRIES,
            "weakest": triage.WEAK,
        }
        worried = triage.worries(self.tally, self._stuck, self._before)
        staff = self._folder / "staff"
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
            graded=self._graded,
            worries=worried,
            worried={worry.row.id for worry in worried},
            before=self._before,
            sections=triage.sections(self.tally),
            common=triage.class_mistakes(views),
            weak=triage.weak_tests(views),
            chapters=chapters(self.tally, views),
            folded=len(views) > _MOST_COLUMNS,
            pairs=pairs,
            similarity=self._similarity,
            attention=by_student(self._attention, _SHOWN_ATTENTION),
            places=len(self._attention),
            to_look_at=self._attention_of.keys(),
            **shared,
        )
        readme = self._folder / _README
        readme.write_text(_README_TEXT, encoding="utf-8")

    def _alike(self, pair: SimilarPair) -> dict[str, object]:
        """The two files of a pair; lines are marked only in a file that is still the same."""
        sides = []
        for student, lines, digest in (
            (pair.left, pair.left_lines, pair.left_digest),
            (pair.right, pair.right_lines, pair.right_digest),
        ):
            source = self._paired.get((student, pair.exercise), b"")
            same = source_digest(source) == digest
            marked = {n for first, last in lines for n in range(first, last + 1)} if same else set()
            sides.append(
                {"student": student, "source": source, "lines": lines, "marked": marked}
                | {"same": same}
            )
        return {"pair": pair, "sides": sides}


def _refuse_what_is_no_report(folder: Path) -> None:
    """A report takes the place of nothing but a report."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise SubmissionError(f"{folder} is a file; name a folder for the report.")
    readme = folder / _README
    if readme.is_file() and readme.read_bytes().startswith(_FIRST_LINE.encode()):
        return
    if any(not path.name.startswith(_DRAFT) for path in folder.iterdir()):
        raise SubmissionError(
            f"{folder} holds something that is not a report; name a new or an empty folder."
        )


def _replace(folder: Path, draft: Path) -> None:
    for part in _PARTS:
        old = folder / part
        if old.is_dir() and not old.is_symlink():
            shutil.rmtree(old)
        (draft / part).replace(old)


_README_TEXT = f"""\
{_FIRST_LINE}

staff/index.html   begin here. For staff only: names, code, hidden tests, everything.
staff/             never send or publish anything in it.
students/          one self-contained page for each student. Send each student the own page alone:
                   it names no other student, and of hidden tests it has what students may read.
                   The folder as a whole is a list of the class; do not publish it.

Open the pages in any browser; nothing is loaded from a network. `grade report` writes both folders
anew.
"""
