"""Merging gradebooks: several graders of one course, each with a part of the class or of its exercises.

All of it is one transaction of the gradebook that is merged into: who is interrupted has merged nothing. The
others are only read. Merging again what is merged changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from grader.errors import SubmissionError
from grader.gradebook.book import Gradebook
from grader.gradebook.cells import read_result
from grader.gradebook.corrections import Correction, Kind, correction_words
from grader.gradebook.keeper import Keeper
from grader.gradebook.review import most_pressing_first
from grader.judge.scoring import sum_of
from grader.results import Result, Status, StudentInfo
from grader.text import number

_CORRECTION = (
    "student",
    "exercise",
    "test",
    "kind",
    "points",
    "reason",
    "comment",
    "author",
    "made_at",
)


class Conflict(msgspec.Struct, frozen=True):
    """What two gradebooks say otherwise of the same thing, and which of them is `kept`."""

    student: str
    exercise: str
    what: str
    kept: str


class Merged(msgspec.Struct, frozen=True):
    """How much of a merge was new, and what the gradebooks disagreed on."""

    students: int
    attempts: int
    verdicts: int
    corrections: int
    conflicts: tuple[Conflict, ...]


def merge(
    base: Path, others: Sequence[Path], into: Path | None = None, prefer: Path | None = None
) -> Merged:
    """Merge gradebooks into that of `base`, or all of them into a new one, and write the results anew.

    Of two verdicts on the same file the one of `prefer` is kept, or else the newer one; of the points that two
    people set, the later ones.

    Raises SubmissionError, before anything is written, where they are of several courses, have several
    policies, or one of them is still being graded.
    """
    sources = [base, *others] if into is not None else list(others)
    target = into if into is not None else base
    paths = [path.resolve() for path in (target, *sources)]
    if len(set(paths)) < len(paths):
        raise SubmissionError(
            "A gradebook is named twice: name each once, and another one after -o."
        )
    for source in (base, *others):
        with Gradebook.open(source) as book:
            _refuse_unfinished(book)
            with Gradebook.open(base) as first:
                refuse_other(first, book)
    if into is not None and (into / "gradebook.sqlite").is_file():
        with Gradebook.open(into) as book, Gradebook.open(base) as first:
            if book.fact("course"):
                refuse_other(book, first)
    with _Merging.open(target) as merging:
        return merging.merge(sources, prefer.resolve() if prefer is not None else None)


def refuse_other(book: Gradebook, other: Gradebook) -> None:
    """Raise SubmissionError for gradebooks of several courses or policies."""
    if book.course.name != other.course.name:
        raise SubmissionError(
            f"{book.folder} is the gradebook of the course {book.course.name}, and {other.folder} that of "
            f"{other.course.name}: only those of one course can be merged."
        )
    if book.fact("policy") != other.fact("policy"):
        raise SubmissionError(
            f"{book.folder} and {other.folder} have different policies, and only you can say which one "
            f"holds: give both the same with `grade policy RESULTS --file policy.toml`, and merge again."
        )


def _refuse_unfinished(book: Gradebook) -> None:
    if book.unfinished:
        raise SubmissionError(
            f"The last grading of {book.folder} is not at its end: let it end, or run `grade batch` again, "
            "and then merge."
        )
    if not book.fact("course"):
        raise SubmissionError(
            f"Nothing was graded in {book.folder} yet: there is nothing to merge."
        )


class _Source(Gradebook):
    """A gradebook that is only read."""

    def rows(self, statement: str) -> Iterator[tuple[object, ...]]:
        """The rows of a query."""
        yield from self._connection.execute(statement)


class _Merging(Keeper):
    """The gradebook that others are merged into."""

    def merge(self, sources: Sequence[Path], prefer: Path | None) -> Merged:
        """Merge these in their order, all or none of them."""
        self._students = self._attempts = self._verdicts = self._new_corrections = 0
        self._conflicts: list[Conflict] = []
        self._replacing = False
        # The verdicts that no other one replaces.
        self._preferred: set[tuple[int, str]] = set()
        if self.folder.resolve() == prefer:
            self._preferred = set(
                self._connection.execute("SELECT attempt, exercise FROM grades").fetchall()
            )
        before = self._connection.total_changes
        with self.transaction():
            for source in sources:
                with _Source.open(source) as other:
                    self._add(other, is_preferred=source.resolve() == prefer)
            is_changed = self._connection.total_changes > before
            if is_changed:
                self._set_fact("stale", "yes")
        # Killed before it was at its end, the next merge or grading writes them.
        if is_changed or self.fact("stale"):
            for student in self.students():
                self.write_result(student.id)
            self.settled()
        return Merged(
            self._students,
            self._attempts,
            self._verdicts,
            self._new_corrections,
            tuple(dict.fromkeys(self._conflicts)),
        )

    def _add(self, other: _Source, *, is_preferred: bool) -> None:
        self._add_facts(other)
        self._add_students(other)
        for digest, deflated in other.rows("SELECT digest, deflated FROM sources"):
            if not self._has_source(str(digest)):
                self._connection.execute("INSERT INTO sources VALUES (?, ?)", (digest, deflated))
        attempts = self._add_attempts(other)
        for attempt, exercise, source, problem in other.rows("SELECT * FROM files"):
            self._connection.execute(
                "INSERT OR IGNORE INTO files VALUES (?, ?, ?, ?)",
                (attempts[int(str(attempt))], exercise, source, problem),
            )
        self._add_verdicts(other, attempts, is_preferred=is_preferred)
        self._add_corrections(other)

    # --- facts and students ---------------------------------------------------------------------

    def _add_facts(self, other: _Source) -> None:
        """Facts of the first one stand; exercises, and what to look at, are those of all."""
        facts = {str(name): str(value) for name, value in other.rows("SELECT * FROM facts")}
        if not self.fact("course"):
            for name, value in facts.items():
                self._set_fact(name, value)
            return
        wanted = {}
        own = self.fact("exercises").split(",")
        more = [name for name in facts["exercises"].split(",") if name not in own]
        if set(own) != set(facts["exercises"].split(",")):
            what = (
                f"{self.folder} is about {','.join(own)}; {other.folder} about {facts['exercises']}"
            )
            kept = "all of them; who is in one of the two alone has nothing for the rest"
            self._conflicts.append(Conflict("", "", what.replace(",", ", "), kept))
        if more:
            wanted["exercises"] = ",".join([*own, *more])
            if self.fact("assigned") and facts.get("assigned"):
                wanted["assigned"] = wanted["exercises"]
            if (blank := _with_more(self.blank, other.blank)) is not None:
                wanted["blank"] = msgspec.json.encode(blank).decode()
        entries = most_pressing_first([*self.attention(), *other.attention()])
        wanted["attention"] = msgspec.json.encode(entries).decode()
        for name, value in wanted.items():
            if self.fact(name) != value:
                self._set_fact(name, value)

    def _add_students(self, other: _Source) -> None:
        known = {student.id: student for student in self.students()}
        addresses = {student.email: student.id for student in known.values() if student.email}
        for student in other.students():
            before = known.get(student.id)
            if before is None:
                self.keep_student(student)
                self._students += 1
                if student.email in addresses:
                    what = (
                        f"has the address of {addresses[student.email]}: one person under two ids?"
                    )
                    self._conflicts.append(Conflict(student.id, "", what, "both"))
                continue
            if before.name and student.name and before.name != student.name:
                what = f"is called {before.name} and {student.name}"
                self._conflicts.append(Conflict(student.id, "", what, before.name))
            merged = StudentInfo(
                id=student.id,
                name=before.name or student.name,
                email=before.email or student.email,
                ids={**student.ids, **before.ids},
            )
            if merged != before:
                self.keep_student(merged)

    # --- attempts and verdicts ------------------------------------------------------------------

    def _add_attempts(self, other: _Source) -> dict[int, int]:
        """The number of the row of each attempt here, by that in the other gradebook."""
        rows: dict[int, int] = {}
        for attempt in other.attempts():
            times = dict(
                self._connection.execute(
                    "SELECT submitted_at, id FROM attempts WHERE student = ? AND digest = ?"
                    " ORDER BY submitted_at",
                    (attempt.student, attempt.digest),
                ).fetchall()
            )
            known = times.get(attempt.submitted_at, times.get(""))
            if known is None and not attempt.submitted_at:
                known = next(reversed(times.values()), None)
            if known is not None:
                if attempt.submitted_at and attempt.submitted_at not in times:
                    self._connection.execute(
                        "UPDATE attempts SET submitted_at = ?, late = ? WHERE id = ?",
                        (attempt.submitted_at, attempt.late, known),
                    )
                rows[attempt.id] = known
                continue
            cursor = self._connection.execute(
                "INSERT INTO attempts (student, number, digest, submitted_at, late, origin)"
                " SELECT ?1, coalesce(max(number), 0) + 1, ?2, ?3, ?4, ?5 FROM attempts WHERE student = ?1",
                (
                    attempt.student,
                    attempt.digest,
                    attempt.submitted_at,
                    attempt.late,
                    attempt.origin,
                ),
            )
            rows[attempt.id] = int(cursor.lastrowid or 0)
            self._attempts += 1
        return rows

    def _add_verdicts(
        self, other: _Source, attempts: dict[int, int], *, is_preferred: bool
    ) -> None:
        students = {attempt.id: attempt.student for attempt in other.attempts()}
        environments = {
            number: self._environment_row(str(text))
            for number, text in other.rows("SELECT id, environment FROM environments")
        }
        for row in other.rows("SELECT * FROM grades"):
            theirs = dict(zip(_GRADES, row, strict=True))
            attempt = attempts[int(str(theirs["attempt"]))]
            student = students[int(str(theirs["attempt"]))]
            theirs["attempt"] = attempt
            theirs["environment"] = environments[theirs["environment"]]
            pair = attempt, str(theirs["exercise"])
            wins = is_preferred or (False if pair in self._preferred else None)
            if is_preferred:
                self._preferred.add(pair)
            found = self._connection.execute(
                "SELECT * FROM grades WHERE attempt = ? AND exercise = ?",
                (attempt, theirs["exercise"]),
            ).fetchone()
            if found is None:
                self._put(theirs)
                self._verdicts += 1
            elif self._is_taken(dict(zip(_GRADES, found, strict=True)), theirs, student, wins):
                self._set_aside_row(attempt, str(theirs["exercise"]))
                self._put(theirs)
                self._verdicts += 1

    def _is_taken(
        self,
        mine: dict[str, object],
        theirs: dict[str, object],
        student: str,
        wins: bool | None,
    ) -> bool:
        """Whether their verdict on the same file takes the place of the one here.

        It is the newer one that does, unless it is said which one `wins`.
        """
        open_ones = [each["status"] == Status.UNJUDGED.value for each in (mine, theirs)]
        if any(open_ones):
            return open_ones == [True, False]
        if mine["key"] == theirs["key"]:
            return False
        is_newer = str(theirs["graded_at"]) > str(mine["graded_at"])
        is_taken = is_newer if wins is None else wins
        if (mine["status"], mine["score"]) != (theirs["status"], theirs["score"]):
            texts = [_verdict_words(each) for each in (mine, theirs)]
            kept = texts[is_taken]
            # The one that was there first is named first, whichever of them is merged into the other.
            what = " and ".join(sorted(texts))
            self._conflicts.append(Conflict(student, str(mine["exercise"]), what, kept))
        return is_taken

    def _put(self, row: dict[str, object]) -> None:
        self._connection.execute(
            "INSERT OR REPLACE INTO grades VALUES (:attempt, :exercise, :key, :source, :course, :grader,"
            " :seed, :status, :score, :max_score, :graded_at, :environment, :result)",
            row,
        )

    def _set_aside_row(self, attempt: int, exercise: str) -> None:
        """Keep what is about to be replaced, in a revision of its own."""
        if not self._replacing:
            self._set_fact("revision", str(self.revision + 1))
            self._replacing = True
        self._connection.execute(
            "INSERT OR IGNORE INTO replaced SELECT ?, attempt, exercise, graded_at, result FROM grades"
            " WHERE attempt = ? AND exercise = ? AND status != ?",
            (self.revision, attempt, exercise, Status.UNJUDGED.value),
        )

    def _environment_row(self, text: str) -> int:
        find = "SELECT id FROM environments WHERE environment = ?"
        row = self._connection.execute(find, (text,)).fetchone()
        if row is None:
            self._connection.execute("INSERT INTO environments (environment) VALUES (?)", (text,))
            row = self._connection.execute(find, (text,)).fetchone()
        return int(row[0])

    # --- corrections ----------------------------------------------------------------------------

    def _add_corrections(self, other: _Source) -> None:
        """Those of both, in the order in which they were made: of several points the last ones hold."""
        own = {_identity(each): each for each in self.corrections()}
        new = []
        for each in other.corrections():
            before = own.get(_identity(each))
            if before is None:
                new.append(each)
                self._tell_disagreement(each, own.values())
            elif each.undone_at and not before.undone_at:
                self._connection.execute(
                    "UPDATE corrections SET undone_at = ?, undone_by = ? WHERE id = ?",
                    (each.undone_at, each.undone_by, before.id),
                )
        if not new:
            return
        self._new_corrections += len(new)
        everything = sorted([*self.corrections(), *new], key=lambda each: each.made_at)
        self._connection.execute("DELETE FROM corrections")
        for place, each in enumerate(everything, 1):
            row = msgspec.to_builtins(msgspec.structs.replace(each, id=place))
            self._connection.execute(
                "INSERT INTO corrections VALUES (:id, :student, :exercise, :test, :kind, :points,"
                " :reason, :comment, :author, :made_at, :judged, :undone_at, :undone_by)",
                row,
            )

    def _tell_disagreement(self, new: Correction, own: Iterable[Correction]) -> None:
        for each in own:
            same = (each.student, each.exercise, each.test) == (new.student, new.exercise, new.test)
            if not same or each.undone_at or new.undone_at:
                continue
            texts = [_correction_words(one) for one in sorted((each, new), key=lambda c: c.made_at)]
            both = each.kind is Kind.POINTS and new.kind is Kind.POINTS
            kept = texts[1] if both else "both hold"
            self._conflicts.append(Conflict(new.student, new.exercise, " and ".join(texts), kept))


_GRADES = (
    "attempt", "exercise", "key", "source", "course", "grader", "seed", "status", "score", "max_score",
    "graded_at", "environment", "result",
)  # fmt: skip


def _identity(correction: Correction) -> tuple[object, ...]:
    return tuple(getattr(correction, name) for name in _CORRECTION)


def _with_more(blank: Result | None, other: Result | None) -> Result | None:
    """The blank result with the exercises of both."""
    if blank is None or other is None:
        return blank or other
    names = {each.name for each in blank.exercises}
    exercises = (*blank.exercises, *(each for each in other.exercises if each.name not in names))
    score, max_score = sum_of(exercises)
    return msgspec.structs.replace(blank, exercises=exercises, score=score, max_score=max_score)


def _verdict_words(row: dict[str, object]) -> str:
    result = read_result(row["result"])  # type: ignore[arg-type]  # bytes, as they stand in the table
    return f"{number(result.score)} of {number(result.max_score)} points ({row['graded_at']})"


def _correction_words(correction: Correction) -> str:
    who = f" by {correction.author}" if correction.author else ""
    return f"{correction_words(correction)}{who} ({correction.made_at})"
