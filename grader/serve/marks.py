"""Marking by a rubric on the server, for the page and for programs: who has which file, and what is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grader.course.manifest import Course, Exercise
from grader.errors import UsageError
from grader.gradebook.facts import Remarks
from grader.gradebook.marking import Rubric, read_rubric, rubric_of
from grader.serve.claims import Claimed, Claims
from grader.serve.http import NO_STUDENT, Refusal
from grader.serve.messages import FileForMarking, MarkMade, MarkRequest
from grader.serve.roles import Asker
from grader.serve.server import OpenServer
from grader.serve.staff import ListedFile, MarkView, files_to_mark, mark_view
from grader.serve.threads import CHANGED, CLASS
from grader.text import clean

MAX_COMMENTS, LONGEST_COMMENT = 100, 1000
# These actions leave the file to others.
_LEAVING = ("next", "skip", "stop")


class Marks:
    """The files that are marked on a server, each with one person at a time."""

    def __init__(self, server: OpenServer) -> None:
        self._server, self.claims = server, Claims()

    async def files(
        self, asker: Asker, exercise: Exercise, options: Mapping[str, str]
    ) -> list[ListedFile]:
        """Return an exercise's files of the students that a person reaches, in the order of the list."""
        return await self._server.summaries.books.answer(
            lambda book: files_to_mark(book, asker, exercise.id, anonymous="anonymous" in options)
        )

    def next(
        self, asker: Asker, exercise: str, files: Sequence[ListedFile], options: Mapping[str, str]
    ) -> str:
        """Claim a file to show: the person's own, else the next one that nobody has; empty if none is left."""
        after, again = options.get("after", ""), "again" in options
        own = self.claims.own(asker.name, exercise)
        at = next((place for place, file in enumerate(files, 1) if file.name == after), 0)
        # Skipped files come again after the last one; with `again`, each file is shown once.
        in_turn = files[at:] if again else [*files[at:], *files[:at]]
        in_turn = sorted(in_turn, key=lambda file: file.name != own)
        open_ones = [
            Claimed(exercise, f.name) for f in in_turn if f.waiting or again or f.name == own
        ]
        claimed = self.claims.take(asker.name, open_ones)
        return "" if claimed is None else claimed.name

    def others(self, asker: Asker, exercise: Exercise) -> list[str]:
        """Return the other people who have a file of an exercise."""
        return [who for who in self.claims.holders(exercise.id) if who != asker.name]

    async def view(self, asker: Asker, exercise: Exercise, name: str) -> MarkView:
        """Return a file for marking; raises Refusal unless the person reaches its student."""
        view = await self._server.summaries.books.answer(
            lambda book: mark_view(book, asker, exercise.id, name)
        )
        if view is None:
            raise Refusal(404, NO_STUDENT)
        return view

    async def do(
        self,
        asker: Asker,
        exercise: Exercise,
        rubric: Rubric,
        name: str,
        seen: str,
        what: str,
        remarks: Remarks,
    ) -> str:
        """Keep the remarks about a file, as its mark with `next`, and leave it unless `what` is `draft`.

        Returns the new state. Raises Refusal if somebody else has the file, or has changed it since the state
        `seen`.
        """
        other = self.claims.renew(asker.name, exercise.id, name)
        if other and what in ("skip", "stop"):
            pass  # Only the person who has the file now may change its remarks.
        elif other:
            sentence = f"{other} has this file now, since you gave no answer for a while."
            raise Refusal(409, f"Nothing was saved: {sentence} Skip it, or try again later.")
        elif what == "next":
            await self._server.desk.answer(
                lambda desk: desk.staff.mark(asker, rubric, exercise.id, name, seen, remarks)
            )
        else:
            seen = await self._server.desk.answer(
                lambda desk: desk.staff.keep_remarks(asker, exercise.id, name, seen, remarks)
            )
        if what in _LEAVING:
            self.claims.drop(asker.name, exercise.id, name)
        if what == "next":
            self._server.hub.tell(CLASS, CHANGED)
        return seen


def exercise_of(course: Course, name: str) -> Exercise:
    """Return an exercise of the course; raises Refusal if there is none."""
    for exercise in course.exercises:
        if exercise.id == name:
            return exercise
    raise Refusal(404, "There is no such exercise.")


def rubric_for(course: Course, exercise: Exercise) -> Rubric:
    """Read the rubric of an exercise; raises Refusal if there is none, or it has a mistake."""
    try:
        return read_rubric(rubric_of(course, exercise), exercise.points)
    except UsageError as error:
        raise Refusal(404, str(error)) from error


# --- the same for programs --------------------------------------------------------------------------


def file_for_marking(view: MarkView, *, anonymous: bool) -> FileForMarking:
    """Return a file as programs read it."""
    return FileForMarking(
        file=view.name,
        student="" if anonymous else view.student.id,
        name="" if anonymous else view.student.name,
        score=view.file.result.score,
        max_score=view.file.result.max_score,
        source=view.file.source.decode("utf-8", "replace"),
        keys=view.remarks.keys,
        comments=view.remarks.comments,
        marks=tuple(
            MarkMade(m.add or 0.0, m.reason, m.author, m.time.isoformat()) for m in view.marks
        ),
        seen=view.seen,
    )


def remarks_in(sent: MarkRequest, rubric: Rubric) -> Remarks:
    """Return the remarks that a program sent, without items that the rubric lacks; raises Refusal."""
    if len(sent.comments) > MAX_COMMENTS:
        raise Refusal(422, f"Send at most {MAX_COMMENTS} comments.")
    keys = tuple(item.key for item in rubric.item if item.key in sent.keys)
    cleaned = (clean(" ".join(text.split()), LONGEST_COMMENT) for text in sent.comments)
    return Remarks(keys, tuple(filter(None, cleaned)))
