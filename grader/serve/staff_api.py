"""The routes for programs of staff, such as `grade adjust --server`: the same as in the pages, as JSON."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from grader.serve.extensions import ExtensionRequest, extensions_state
from grader.serve.http import NO_STUDENT, Refusal, answered, body_of, decoded
from grader.serve.roles import Asker, Right
from grader.serve.server import OpenServer
from grader.serve.threads import CHANGED, CLASS

_MOST_BYTES = 64 << 10


class StaffApi:
    """The routes for programs of staff."""

    def __init__(self, server: OpenServer) -> None:
        self._server = server

    # --- extensions -----------------------------------------------------------------------------

    async def extensions(self, request: Request) -> Response:
        """The due times and extensions of a student."""
        asker = await self._server.identity.staff(request, Right.READ)
        return await self._extensions(asker, request.query_params.get("student", ""))

    async def extend(self, request: Request) -> Response:
        """Give a student more time, or take an extension back; the answer is sent when it is on the disk."""
        asker = await self._server.identity.staff(request, Right.MARK)
        sent = decoded(await body_of(request, _MOST_BYTES), ExtensionRequest)
        student, seen, until, number = sent.student, sent.seen, sent.until, sent.take_back
        if (until is None) == (number is None) or (number or 0) < 0:
            raise Refusal(422, "Send `until`, or the number to `take_back`.")
        if until is not None:
            await self._server.desk.answer(
                lambda desk: desk.extend(
                    asker, student, sent.name, seen, until=until, reason=sent.reason
                )
            )
        else:
            await self._server.desk.answer(
                lambda desk: desk.take_extension_back(asker, student, seen, number or 0)
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
