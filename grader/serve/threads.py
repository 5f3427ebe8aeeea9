"""Communication between a server's threads and its event loop: questions to a gradebook, events to streams.

A connection of SQLite belongs to the thread that opened it, so each gradebook has its own thread. A slow client
delays no other client and takes no memory: if its events pile up, they are replaced by a single event, after
which it reads the whole state.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

B = TypeVar("B")
T = TypeVar("T")

# The topic of staff; topics of attempts are their ids, from 1.
CLASS = 0
_MAX_EVENTS = 32


def pause_after(failures: int, pauses: Sequence[float]) -> float:
    """Return a thread's pause after this number of failures in a row, at least one; the last pause is kept."""
    return pauses[min(failures, len(pauses)) - 1]


class BookThread(Generic[B]):
    """A thread that answers questions about a gradebook, one at a time; a context manager."""

    def __init__(self, name: str, opened: Callable[[], AbstractContextManager[B]]) -> None:
        self._opened = opened
        self._stack = contextlib.ExitStack()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._book: B | None = None

    def __enter__(self) -> BookThread[B]:
        try:
            opened = self._thread.submit(lambda: self._stack.enter_context(self._opened()))
            self._book = opened.result()
        except BaseException:
            self._thread.shutdown()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        # Close it in its thread, after all earlier questions.
        self._thread.submit(self._stack.close).result()
        self._thread.shutdown()

    def ask(self, question: Callable[[B], T]) -> Future[T]:
        """Call `question` with the book in its thread; return a future of the answer."""

        def asked() -> T:
            assert self._book is not None, "the book is not open yet"
            return question(self._book)

        return self._thread.submit(asked)

    async def answer(self, question: Callable[[B], T]) -> T:
        """Await the answer to a question, without blocking the event loop."""
        return await asyncio.wrap_future(self.ask(question))


class Event(NamedTuple):
    """An event of a stream: progress, a place in the queue, or a change of the state, to be read anew."""

    name: str
    data: Mapping[str, str | int] = MappingProxyType({})


CHANGED, CLOSED = Event("state"), Event("closed")


class Hub:
    """The open streams; any thread may send events, and only the event loop listens."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listeners: dict[int, set[asyncio.Queue[Event]]] = {}
        self._closed = False
        self._followers: list[Callable[[], None]] = []
        self.places: Mapping[tuple[int, str], int] = {}

    @property
    def streams(self) -> int:
        """The number of open streams."""
        return sum(map(len, self._listeners.values()))

    def open(self) -> None:
        """Deliver events in the running event loop from now on."""
        self._loop = asyncio.get_running_loop()

    def follow(self, called: Callable[[], None]) -> None:
        """Call this, from any thread, whenever something changes in the class."""
        self._followers.append(called)

    @contextlib.contextmanager
    def listening(self, topic: int) -> Iterator[asyncio.Queue[Event]]:
        """Yield a queue of events on a topic: an attempt, or the class."""
        events: asyncio.Queue[Event] = asyncio.Queue(_MAX_EVENTS)
        if self._closed:
            events.put_nowait(CLOSED)
        self._listeners.setdefault(topic, set()).add(events)
        try:
            yield events
        finally:
            self._listeners[topic].discard(events)
            if not self._listeners[topic]:
                del self._listeners[topic]

    def tell(self, topic: int, event: Event) -> None:
        """Send an event to the listeners of a topic; call it from any thread."""
        self._call(lambda: self._put(topic, event))
        if topic == CLASS:
            for called in self._followers:
                called()

    def tell_places(self, places: Mapping[tuple[int, str], int]) -> None:
        """Set the places in the queue, and send an event for each change; call it from any thread."""

        def told() -> None:
            before, self.places = self.places, places
            for (attempt, exercise), place in places.items():
                if attempt in self._listeners and before.get((attempt, exercise)) != place:
                    self._put(attempt, Event("place", {"exercise": exercise, "place": place}))
            self._put(CLASS, CHANGED)

        self._call(told)

    def close(self) -> None:
        """End all open streams, and every stream that opens later."""
        self._closed = True
        for topic in list(self._listeners):
            self._put(topic, CLOSED)

    def _call(self, function: Callable[[], None]) -> None:
        # After the loop has ended, no stream is open.
        if self._loop is not None and not self._loop.is_closed():
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(function)

    def _put(self, topic: int, event: Event) -> None:
        for events in self._listeners.get(topic, ()):
            if events.full():
                while not events.empty():
                    events.get_nowait()
                event = event if event is CLOSED else CHANGED
            events.put_nowait(event)
