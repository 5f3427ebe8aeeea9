"""The door: signing in with a token, at a university, or by a launch from a platform, and signing out.

Browsers send the cookie of a session only with requests from our own pages (SameSite=Strict), so not with the
redirect back from a university. We answer that redirect with a page of ours, which goes on to the wanted page
by itself. For the same reason a launch opens its own tab: in a frame of the platform's page, no browser would
send the cookie.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
import urllib.parse
from collections import Counter
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from grader.exports.push.lti import work_of
from grader.gradebook import invitations, sessions
from grader.gradebook.platforms import Platform, platforms
from grader.gradebook.tokens import Role
from grader.gradebook.tool_key import made_key
from grader.serve.http import Refusal, form_of, network_of
from grader.serve.identity import COOKIE, keep_signed_in, same_origin
from grader.serve.server import OpenServer
from grader.serve.sign_in.handshakes import Handshakes, browser_value
from grader.serve.sign_in.launch import (
    HOURS,
    LOGIN,
    SELECT,
    Launch,
    LaunchReader,
    Selection,
    login_request,
    page_of,
    person_of,
)
from grader.serve.sign_in.registration import invited, registered
from grader.serve.sign_in.selection import ASSIGNMENT, choices, policy_of
from grader.serve.sign_in.sign_in_file import Person
from grader.serve.turns import Turns

T = TypeVar("T")

CALLBACK = "/sign-in/university/callback"
_BROWSER_COOKIE, _LAUNCH_COOKIE = "lab_bench_browser", "lab_bench_launch"
# The limit for the body of a launch: its ID token may have many claims.
_LAUNCH_BYTES = 128 * 1024
# Values of Sec-Fetch-Dest for a page inside another one.
_FRAMES = ("iframe", "frame", "embed", "object")
_OF_LOGIN = ("iss", "client_id", "login_hint", "lti_message_hint", "lti_deployment_id")
# Pages with at most a link, so any page may show them in a frame.
_FRAMED = (
    "default-src 'none'; style-src 'self'; script-src 'self'; base-uri 'none'; form-action 'none'"
)
# The path of one of our pages; it never matches an address of another site.
_PAGE = re.compile(r"(/[A-Za-z0-9_-]+)+|/")
_LONGEST_PAGE = 200
# Limits: requests to other servers at a time, requests that wait, and those from one address.
_REQUESTS = 4
_MAX_WAITING, _MAX_OF_ONE = 1000, 200


class Door:
    """The routes for signing in and out."""

    def __init__(self, server: OpenServer, write: Callable[..., str]) -> None:
        self._server, self._write = server, write
        self._university = server.university
        self._is_secure = server.address.startswith("https:")
        # With TLS, the prefix keeps other hosts of the domain from setting these cookies.
        prefix = "__Host-" if self._is_secure else ""
        self._cookie, self._launch_cookie = prefix + _BROWSER_COOKIE, prefix + _LAUNCH_COOKIE
        self._handshakes, self._launches = Handshakes("university"), Handshakes("launch")
        self._reader = LaunchReader(server.address)
        self._threads = ThreadPoolExecutor(_REQUESTS, thread_name_prefix="sign-in")
        # A stranger who begins hundreds of sign-ins delays nobody else.
        self._turns = Turns(_REQUESTS)
        self._waiting: Counter[str] = Counter()

    def page(self, request: Request, refusal: Refusal | None = None, status: int = 200) -> Response:
        """Return the page to sign in on; a `refusal` says why the last token was not accepted."""
        university = self._university
        return self._page(
            "signed_out.html",
            status,
            heading="Hand in, and see your verdict",
            said="" if refusal is None else refusal.detail,
            university="" if university is None else university.sign_in.name,
            is_down=university is not None and university.is_down,
            then=_page_of(request.url.path) if request.method == "GET" else "/",
        )

    async def sign_in(self, request: Request) -> Response:
        """Have the browser keep a token, if it is valid."""
        same_origin(request)
        token = (await form_of(request)).get("token", "").strip()
        try:
            person = await self._server.identity.holder(token)
        except Refusal as refusal:
            return self.page(request, refusal, refusal.status_code)
        response = RedirectResponse("/" if person.student is not None else "/class", 303)
        keep_signed_in(response, request, token)
        return response

    async def sign_out(self, request: Request) -> Response:
        """End the session, and have the browser forget the token."""
        same_origin(request)
        token = request.cookies.get(COOKIE, "")
        if sessions.is_session(token):
            await self._server.desk.answer(lambda desk: desk.end_session(token))
        response = RedirectResponse("/", 303)
        response.delete_cookie(COOKIE)
        return response

    # --- at a university ------------------------------------------------------------------------

    async def university(self, request: Request) -> Response:
        """Send a person to the university to sign in."""
        university = self._university
        if university is None:
            raise Refusal(404, "There is no such page.")
        browser = browser_value(request.cookies.get(self._cookie, ""))
        then = _page_of(request.query_params.get("then", "/"))
        handshake = self._handshakes.begin(browser, then)
        try:
            address = await self._elsewhere(request, lambda: university.authorization(handshake))
        except Refusal as refusal:
            return self.page(request, refusal, refusal.status_code)
        response = RedirectResponse(address, 303)
        # Lax: the browser must send it with the redirect back from the university.
        response.set_cookie(
            self._cookie, browser, httponly=True, samesite="lax", secure=self._is_secure
        )
        return response

    async def came_back(self, request: Request) -> Response:
        """Sign in a person whom the university sent back."""
        university = self._university
        if university is None:
            raise Refusal(404, "There is no such page.")
        browser = request.cookies.get(self._cookie, "")
        answer = dict(request.query_params)
        try:
            with self._handshakes.answered(browser, answer.get("state", "")) as handshake:
                person = await self._elsewhere(
                    request, lambda: university.person(handshake, answer)
                )
                return await self._signed_in(
                    request,
                    person,
                    university.sign_in.origin,
                    university.sign_in.hours * 3600,
                    handshake.note,
                )
        except Refusal as refusal:
            return self._not_signed_in(refusal)

    # --- by a launch from a platform ------------------------------------------------------------

    async def begin_launch(self, request: Request) -> Response:
        """Begin a launch for a platform: send the browser back to it for an ID token."""
        asked = dict(request.query_params)
        if request.method == "POST":
            asked |= await form_of(request, _LAUNCH_BYTES)
        platform, note = login_request(await self._platforms(), asked)
        is_framed = request.headers.get("sec-fetch-dest", "") in _FRAMES
        # A platform takes a choice only from the frame that it opened for it.
        selects = asked.get("target_link_uri", "") == self._server.address + SELECT
        if is_framed and not selects:
            said = {name: asked[name] for name in _OF_LOGIN if name in asked}
            address = f"{LOGIN}?{urllib.parse.urlencode(said)}"
            page = self._page("new_tab.html", heading=self._server.course.title, address=address)
            page.headers["Content-Security-Policy"] = _FRAMED
            return page
        browser = browser_value(request.cookies.get(self._launch_cookie, ""))
        handshake = self._launches.begin(browser, note)
        address = self._reader.authorization(platform, handshake, asked)
        response = RedirectResponse(address, 303)
        # None: the browser must send it with the form that the platform's page posts. In a frame, most browsers
        # keep a cookie only for frames on the same platform.
        cookie = f"{self._launch_cookie}={browser}; HttpOnly; Path=/; SameSite=None; Secure"
        response.headers["Set-Cookie"] = cookie + ("; Partitioned" if is_framed else "")
        return response

    async def launch(self, request: Request) -> Response:
        """Sign in a person by a launch that a platform posts."""
        if request.method != "POST":
            # The address was opened without the platform.
            return RedirectResponse("/", 303)
        posted = await form_of(request, _LAUNCH_BYTES)
        browser, state = request.cookies.get(self._launch_cookie, ""), posted.get("state", "")
        known = await self._platforms()
        try:
            with self._launches.answered(browser, state) as handshake:
                launch = await self._elsewhere(
                    request, lambda: self._reader.launch(known, handshake, posted)
                )
        except Refusal as refusal:
            return self._not_signed_in(refusal)
        desk, then = self._server.desk, _page_of(page_of(launch.target, self._server.address))
        link = msgspec.structs.replace(launch.link, assignment=self._assignment_of(then))
        if launch.selection is not None:
            await desk.answer(lambda desk: desk.keep_launch(link, "", ""))
            return await self._choices(request, launch, launch.selection)
        try:
            person = person_of(launch, self._server.students)
        except Refusal as refusal:
            # Keep the link anyway: an instructor may want to send points to it.
            await desk.answer(lambda desk: desk.keep_launch(link, launch.user, ""))
            return self._not_signed_in(refusal)
        student = person.name if person.role is Role.STUDENT else ""
        await desk.answer(lambda desk: desk.keep_launch(link, launch.user, student))
        origin = launch.platform.origins[link.deployment]
        return await self._signed_in(request, person, origin, HOURS * 3600, then)

    async def register(self, request: Request) -> Response:
        """Register a platform by a one-time address, which the platform opens with its configuration."""
        address, secret = self._server.address, request.path_params["secret"]
        await self._platforms()
        now = time.time()
        is_valid = await self._server.views.answer(
            lambda views: invitations.is_valid(views.book, secret, now)
        )
        try:
            if not is_valid:
                raise _not_valid()
            asked = invited(request.query_params, address)
            if request.method == "HEAD":
                # A program that only looks at a link must not use it up.
                return Response()
            title = self._server.course.title
            # Wait for the turn first: if too many people are signing in, the secret stays valid.
            async with self._turn(request):
                if not await self._server.desk.answer(lambda desk: desk.use_invitation(secret)):
                    raise _not_valid()
                platform = await self._in_thread(lambda: registered(asked, title, address))
            await self._server.desk.answer(lambda desk: desk.keep_waiting(platform))
        except Refusal as refusal:
            page = self._page(
                "registered.html", refusal.status_code, platform="", said=refusal.detail
            )
        else:
            page = self._page("registered.html", platform=platform.title, said="")
        page.headers["Content-Security-Policy"] = _FRAMED
        return page

    def _assignment_of(self, path: str) -> str:
        """Return the assignment whose page has this path; empty for any other path."""
        known = {ASSIGNMENT + each.id: each.id for each in self._server.course.assignments}
        return known.get(path, "")

    async def _choices(self, request: Request, launch: Launch, selection: Selection) -> Response:
        """Return the page on which a teacher chooses the page for a link."""
        course, address = self._server.course, self._server.address
        names = ["", *(each.id for each in course.assignments)]
        folder, practice, works = await self._server.views.answer(
            lambda views: (
                views.book.folder,
                views.book.facts.practice,
                {name: work_of(views.book, name) for name in names},
            )
        )
        made = await self._elsewhere(
            request,
            lambda: choices(launch, selection, course, practice, made_key(folder), address, works),
        )
        page = self._page(
            "select.html",
            heading="What should the link open?",
            choices=made,
            return_to=selection.return_to,
        )
        page.headers["Content-Security-Policy"] = policy_of(selection)
        return page

    async def _platforms(self) -> list[Platform]:
        """Return the registered platforms; raises Refusal if the server has no --address."""
        if not self._server.address:
            raise Refusal(
                404, "This server accepts no launches: start it with --address, its own address."
            )
        return await self._server.views.answer(lambda views: platforms(views.book))

    # --- shared by all of these -------------------------------------------------------------------

    def _not_signed_in(self, refusal: Refusal) -> Response:
        return self._page(
            "said.html",
            refusal.status_code,
            heading="You are not signed in",
            said=refusal.detail,
            again=True,
        )

    async def _signed_in(
        self, request: Request, person: Person, origin: str, seconds: float, then: str
    ) -> Response:
        """Start a session, and return a page that goes on to `then`."""
        token = await self._server.desk.answer(
            lambda desk: desk.start_session(person.role, person.name, origin, seconds)
        )
        if person.role is not Role.STUDENT and then == "/":
            then = "/class"
        response = self._page("signed_in.html", heading="You are signed in", then=then)
        keep_signed_in(response, request, token, int(seconds), secure=self._is_secure)
        return response

    async def _elsewhere(self, request: Request, ask: Callable[[], T]) -> T:
        """Call a function that asks another server, in turn; raises Refusal if too many wait."""
        async with self._turn(request):
            return await self._in_thread(ask)

    async def _in_thread(self, ask: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, ask)

    @contextlib.asynccontextmanager
    async def _turn(self, request: Request) -> AsyncIterator[None]:
        """Wait for the turn to ask another server; raises Refusal if too many wait."""
        who = network_of(request)
        if self._waiting[who] >= _MAX_OF_ONE or self._waiting.total() >= _MAX_WAITING:
            raise Refusal(503, "Many people are signing in. Try again in a moment.", retry_after=5)
        self._waiting[who] += 1
        try:
            async with self._turns.turn(who):
                yield
        finally:
            self._waiting[who] -= 1
            if not self._waiting[who]:
                del self._waiting[who]

    def _page(self, template: str, status: int = 200, /, **values: Any) -> Response:
        return HTMLResponse(self._write(template, **values), status)


def _page_of(path: str) -> str:
    """Return a path if it is one of our pages to go on to; else the path of the first page."""
    is_page = len(path) <= _LONGEST_PAGE and _PAGE.fullmatch(path) is not None
    return path if is_page and not path.startswith("/sign-in") else "/"


def _not_valid() -> Refusal:
    """Return the answer to a one-time address that is not valid."""
    return Refusal(
        403,
        "This address was used already, is older than an hour, or is mistyped: run `grade platform invite` "
        "for another one.",
    )
