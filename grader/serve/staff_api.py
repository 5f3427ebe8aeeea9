"""The routes for programs of staff, such as `grade adjust --server`: the same as in the pages, as JSON."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from grader.gradebook import Gradebook
from grader.gradebook.corrections import correction_words
from grader.serve.extensions import extensions_state
from grader.serve.http import NO_REQUEST, NO_STUDENT, Refusal, answered, body_of, decoded
from grader.serve.marks import (
    LONGEST_COMMENT,
    MAX_COMMENTS,
    Marks,
    exercise_of,
    file_for_marking,
    remarks_in,
    rubric_for,
)
from grader.serve.messages import (
    AnswerRequest,
    ClassCorrectionRequest,
    ExtensionRequest,
    Marking,
    MarkRequest,
    MarkSaved,
    StaffRequest,
)
from grader.serve.roles import Asker, Right
from grader.serve.server import OpenServer
from grader.serve.staff import class_state, staff_requests
from grader.serve.staff_pages import options_of
from grader.serve.threads import CHANGED, CLASS

_MAX_BYTES = 64 << 10
# A character of JSON takes up to twelve bytes.
_MARK_BYTES = 12 * MAX_COMMENTS * LONGEST_COMMENT + 4096


class StaffApi:
    """The routes for programs of staff."""

    def __init__(self, server: OpenServer, marks: Marks) -> None:
        self._server, self._marks = server, marks

    # --- changes for the whole class ------------------------------------------------------------

    async def class_points(self, request: Request) -> Response:
        """The points of the whole class for an exercise."""
        await self._server.identity.staff(request, Right.RUN)
        return await self._class_points(request.query_params.get("exercise", ""))

    async def correct_class(self, request: Request) -> Response:
        """Change the points of the whole class, or take a change back; responds when it is on the disk."""
        asker = await self._server.identity.staff(request, Right.RUN)
        sent = decoded(await body_of(request, _MAX_BYTES), ClassCorrectionRequest)
        if sent.undo:
            test = sent.drop or sent.give
            correction = await self._server.desk.answer(
                lambda desk: desk.staff.take_back_of_class(sent.exercise, sent.seen, test)
            )
        else:
            change = msgspec.structs.asdict(sent)
            del change["undo"]
            correction = await self._server.desk.answer(
                lambda desk: desk.staff.adjust_class(asker, **change)
            )
        self._server.hub.tell(CLASS, CHANGED)
        return await self._class_points(sent.exercise, correction_words(correction))

    async def _class_points(self, exercise: str, said: str = "") -> Response:
        state = await self._server.summaries.books.answer(
            lambda book: class_state(book, exercise, said)
        )
        if state is None:
            raise Refusal(404, "There is no such exercise.")
        return answered(state)

    # --- extensions -----------------------------------------------------------------------------

    async def extensions(self, request: Request) -> Response:
        """The due times and extensions of a student."""
        asker = await self._server.identity.staff(request, Right.READ)
        return await self._extensions(asker, request.query_params.get("student", ""))

    async def extend(self, request: Request) -> Response:
        """Give a student more time, or take an extension back; responds when it is on the disk."""
        asker = await self._server.identity.staff(request, Right.MARK)
        sent = decoded(await body_of(request, _MAX_BYTES), ExtensionRequest)
        student, seen, until, number = sent.student, sent.seen, sent.until, sent.take_back
        if (until is None) == (number is None) or (number or 0) < 0:
            raise Refusal(422, "Send `until`, or the number to `take_back`.")
        if until is not None:
            await self._server.desk.answer(
                lambda desk: desk.staff.extend(
                    asker, student, sent.name, seen, until=until, reason=sent.reason
                )
            )
        else:
            await self._server.desk.answer(
                lambda desk: desk.staff.take_extension_back(asker, student, seen, number or 0)
            )
        self._server.judging.wake()
        self._server.hub.tell(CLASS, CHANGED)
        return await self._extensions(asker, student)

    async def _extensions(self, asker: Asker, student: str) -> Response:
        state = await self._server.views.answer(
            lambda views: extensions_state(views.book, asker, student)
        )
        if state is None:
            raise Refusal(404, NO_STUDENT)
        return answered(state)

    # --- regrade requests -----------------------------------------------------------------------

    async def requests(self, request: Request) -> Response:
        """The regrade requests of the students that staff reaches, or one by its number, with its verdict."""
        asker = await self._server.identity.staff(request, Right.READ)
        text = request.query_params.get("number", "")
        if text and not (text.isascii() and text.isdecimal() and len(text) < 10):
            raise Refusal(404, NO_REQUEST)
        return answered(await self._requests(asker, int(text or 0)))

    async def answer(self, request: Request) -> Response:
        """Answer a regrade request; responds when the answer is on the disk."""
        asker = await self._server.identity.staff(request, Right.MARK)
        sent = decoded(await body_of(request, _MAX_BYTES), AnswerRequest)
        await self._server.desk.answer(
            lambda desk: desk.staff.answer(sent.number, sent.answer, asker)
        )
        return answered(await self._requests(asker, sent.number))

    async def _requests(self, asker: Asker, number: int) -> list[StaffRequest]:
        found = await self._server.views.answer(
            lambda views: staff_requests(views.book, asker, number)
        )
        if number and not found:
            raise Refusal(404, NO_REQUEST)
        return found

    # --- marking by a rubric ----------------------------------------------------------------------

    async def to_mark(self, request: Request) -> Response:
        """The next file of an exercise to mark, which is with this person from then on."""
        asker = await self._server.identity.staff(request, Right.MARK)
        course, options = self._server.course, options_of(request)
        exercise = exercise_of(course, request.path_params["exercise"])
        files = await self._marks.files(asker, exercise, options)

        def rubric(_: Gradebook) -> Marking:
            return Marking(
                items=rubric_for(course, exercise).item,
                waiting=sum(file.waiting for file in files),
                files=len(files),
                others=(),
                file=None,
            )

        marking = await self._server.summaries.books.answer(rubric)
        file = None
        if name := self._marks.next(asker, exercise.id, files, options):
            view = await self._marks.view(asker, exercise, name)
            file = file_for_marking(view, anonymous="anonymous" in options)
        others = tuple(self._marks.others(asker, exercise))
        return answered(msgspec.structs.replace(marking, others=others, file=file))

    async def mark(self, request: Request) -> Response:
        """Keep the answers about a file, or its mark; responds when they are on the disk."""
        asker = await self._server.identity.staff(request, Right.MARK)
        course = self._server.course
        exercise = exercise_of(course, request.path_params["exercise"])
        sent = decoded(await body_of(request, _MARK_BYTES), MarkRequest)
        rubric = await self._server.summaries.books.answer(lambda _: rubric_for(course, exercise))
        remarks = remarks_in(sent, rubric)
        # Check access before the claim: a person may claim only files of students that the person reaches.
        await self._marks.view(asker, exercise, sent.file)
        seen = await self._marks.do(asker, exercise, rubric, sent.file, sent.seen, sent.do, remarks)
        return answered(MarkSaved(seen))
