"""The thread that passes points back to LTI platforms, for links where staff turned pass-back on.

A round compares the whole class, so it also finds changes from before a kill, or while the platform was out of
reach. A round starts soon after a change, and some pause after the last round; after failures the pauses grow.
The thread has its own connections to the gradebook, so hand-ins never wait for a platform.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path

import msgspec

from grader.exports.push.passback import Round, compared, known, passed_back
from grader.gradebook import Gradebook, platforms
from grader.gradebook.platforms import Link, LinkKey, Platform, TurnedOn
from grader.gradebook.pushed import Pushed
from grader.serve.threads import pause_after

log = logging.getLogger("grader.serve")

# Wait a moment, so that several files handed in at once need only one round.
_SOON_SECONDS = 2.0
# The least pause between rounds, which read a whole column.
_BETWEEN_SECONDS = 10.0
# Without a change, make a round after this time anyway.
_IDLE_SECONDS = 1800.0
_PAUSES_SECONDS = (10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
# Wait this long for a running round. It may be killed at any moment.
_JOIN_SECONDS = 1.0


class PassBack:
    """The thread, from `start` until `close`; any thread may read the newest `rounds` and `plans`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._changed = threading.Condition()
        # The time of each link's next round.
        self._due_at: dict[LinkKey, float] = {}
        self._began_at: dict[LinkKey, float] = {}
        self._failed: dict[LinkKey, int] = {}
        self._closing = False
        self.rounds: dict[LinkKey, Round] = {}
        self.plans: dict[LinkKey, Round] = {}
        self._thread = threading.Thread(target=self._work, name="pass-back", daemon=True)
        self._planning: dict[LinkKey, Future[Round]] = {}

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Start no more rounds; a running round ends after its present student."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(_JOIN_SECONDS)

    def wake(self, key: LinkKey | None = None) -> None:
        """Schedule a round soon for all links, since points may have changed, or now for one link."""
        now = time.monotonic()
        with self._changed:
            if key is not None:
                self._due_at[key] = now
            else:
                for each in self._due_at:
                    soonest = max(
                        now + _SOON_SECONDS, self._began_at.get(each, 0.0) + _BETWEEN_SECONDS
                    )
                    # Keep the pause of a platform out of reach. A refused score of one student must not
                    # delay others.
                    last = self.rounds.get(each)
                    if last is None or not last.error:
                        self._due_at[each] = min(self._due_at[each], soonest)
            self._changed.notify_all()

    def plan(self, platform: Platform, link: Link) -> Future[Round]:
        """Compare a link without sending anything; return the running comparison if there is one."""
        with self._changed:
            if link.key in self._planning:
                return self._planning[link.key]
            future = self._planning[link.key] = Future()

        def planned() -> None:
            try:
                made = self.plans[link.key] = compared(self._folder, platform, link)
            except BaseException as error:  # noqa: BLE001  # raised where the future is awaited
                future.set_exception(error)
            else:
                future.set_result(made)
            finally:
                with self._changed:
                    del self._planning[link.key]

        # A daemon thread, so that no platform delays the end of the server.
        threading.Thread(target=planned, name="plan", daemon=True).start()
        return future

    def turned_off(self, key: LinkKey) -> None:
        """Schedule no more rounds of a link; a running round ends after its present student."""
        with self._changed:
            self._due_at.pop(key, None)
            self._failed.pop(key, None)
            self.plans.pop(key, None)
            self._changed.notify_all()

    # --- the thread -----------------------------------------------------------------------------

    def _work(self) -> None:
        while True:
            try:
                key = self._next()
            except Exception:
                log.exception("pass-back cannot read the gradebook")
                time.sleep(_PAUSES_SECONDS[0])
                continue
            if key is None:
                return
            try:
                self._round(key)
            except Exception:
                # Go on, and show staff that something is wrong.
                log.exception("pass-back failed")
                self._failed[key] = self._failed.get(key, 0) + 1
                self.rounds[key] = Round(
                    made_at="",
                    is_dry=False,
                    error="This is a fault of the grader; see its log.",
                )
            self._again_later(key)

    def _next(self) -> LinkKey | None:
        """Wait until a round is due, and return its link; None if the server ends."""
        self._look()
        with self._changed:
            while not self._closing:
                now = time.monotonic()
                due = min(self._due_at, key=lambda each: self._due_at[each], default=None)
                if due is not None and self._due_at[due] <= now:
                    return due
                wait = _IDLE_SECONDS if due is None else self._due_at[due] - now
                self._changed.wait(wait)
        return None

    def _look(self) -> None:
        """Schedule rounds for the links that are on when the server starts."""
        if self._due_at:
            return
        with Gradebook.open_beside_writer(self._folder) as book:
            on = platforms.turned_on(book)
        with self._changed:
            for key in on:
                self._due_at.setdefault(key, time.monotonic())

    def _round(self, key: LinkKey) -> None:
        with Gradebook.open_beside_writer(self._folder) as book:
            found = [each for each in platforms.linked(book) if each[1].key == key]
            is_on = key in platforms.turned_on(book)
        if not is_on or not found:
            with self._changed:
                self._due_at.pop(key, None)
            return
        with self._changed:
            self._began_at[key] = time.monotonic()
            # Later changes schedule the next round.
            self._due_at[key] = time.monotonic() + _IDLE_SECONDS
        done = passed_back(self._folder, *found[0], go_on=lambda: self._goes_on(key))
        self.rounds[key] = done
        self._failed[key] = 0 if done.is_well else self._failed.get(key, 0) + 1
        if done.arrived or not done.is_well:
            # Log no words of the platform and no sentences about students: they may contain names.
            told = {"sent": done.arrived, "refused": len(done.failures)}
            log.info("passed back", extra={**told, "complete": done.is_well})

    def _goes_on(self, key: LinkKey) -> bool:
        return not self._closing and key in self._due_at

    def _again_later(self, key: LinkKey) -> None:
        """After a failure, schedule the next round; the pause grows with each one."""
        with self._changed:
            failed = self._failed.get(key, 0)
            if failed and key in self._due_at:
                pause = pause_after(failed, _PAUSES_SECONDS)
                self._due_at[key] = min(self._due_at[key], time.monotonic() + pause)


# --- the page for staff -------------------------------------------------------------------------------

# The page shows this many lines of a list.
MAX_LINES = 500


class LinkRow(msgspec.Struct, frozen=True):
    """A link for the page: the students' records, the newest round and the newest plan."""

    id: str
    platform: str
    course: str
    title: str
    on: TurnedOn | None
    sent: list[Pushed]
    names: Mapping[str, str]
    round: Round | None
    plan: Round | None


def id_of(link: Link) -> str:
    """Return an id of a link for forms and addresses."""
    return "l" + hashlib.sha256("\n".join(link.key).encode()).hexdigest()[:16]


def link_rows(
    book: Gradebook, rounds: Mapping[LinkKey, Round], plans: Mapping[LinkKey, Round]
) -> tuple[list[Platform], list[LinkRow]]:
    """Return the registered platforms, and a row for each link that can take points."""
    on, names = platforms.turned_on(book), book.names()
    rows = [
        LinkRow(
            id=id_of(link),
            platform=platform.title,
            course=link.context_title or link.context,
            title=" / ".join(filter(None, (link.resource_title or link.resource, link.assignment))),
            on=on.get(link.key),
            sent=known(book, link),
            names=names,
            round=rounds.get(link.key),
            plan=plans.get(link.key),
        )
        for platform, link in platforms.linked(book)
    ]
    return platforms.platforms(book), rows
