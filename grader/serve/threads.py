"""What goes between the threads of a server and its event loop: questions to a gradebook, events to streams.

SQLite's connections belong to the thread that opened them, so that each gradebook has a thread of its own.
A client that reads slowly keeps no other waiting and no memory busy: where its events pile up they are
thrown away, and one that asks it to read the whole state takes their place.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

B = TypeVar("B")
T = TypeVar("T")

# The stream of staff, beside those of attempts, whose ids begin at 1.
CLASS = 0
_MOST_EVENTS = 32


class BookThread(Generic[B]):
    """What a gradebook is asked, one thing after the other; a context manager that opens and closes it."""

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
        # After all that was asked for before.
        self._thread.submit(self._stack.close).result()
        self._thread.shutdown()

    def ask(self, question: Callable[[B], T]) -> Future[T]:
        """Have the book asked in its thread."""

        def asked() -> T:
            assert self._book is not None, "it is asked before it is open"
            return question(self._book)

        return self._thread.submit(asked)

    async def answer(self, question: Callable[[B], T]) -> T:
        """The same for a coroutine, which waits and blocks no other."""
        return await asyncio.wrap_future(self.ask(question))


class Event(NamedTuple):
    """What a stream is told; the whole state is to be read anew where it is no progress and no place."""

    name: str
    data: Mapping[str, str | int] = MappingProxyType({})


CHANGED, CLOSED = Event("state"), Event("closed")


class Hub:
    """The streams that are open; threads may tell it anything, the event loop alone listens."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listeners: dict[int, set[asyncio.Queue[Event]]] = {}
        self._closed = False
        self.places: Mapping[tuple[int, str], int] = {}

    @property
    def streams(self) -> int:
        """How many streams are open."""
        return sum(map(len, self._listeners.values()))

    def open(self) -> None:
        """Deliver to streams of the loop that runs now."""
        self._loop = asyncio.get_running_loop()

    @contextlib.contextmanager
    def listening(self, topic: int) -> Iterator[asyncio.Queue[Event]]:
        """The events of an attempt, or those of the class, from now on."""
        events: asyncio.Queue[Event] = asyncio.Queue(_MOST_EVENTS)
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
        """Tell those who listen to this; from any thread."""
        self._call(lambda: self._put(topic, event))

    def tell_places(self, places: Mapping[tuple[int, str], int]) -> None:
        """The queue is this from now on: tell those whose place is another; from any thread."""

        def told() -> None:
            before, self.places = self.places, places
            for (attempt, exercise), place in places.items():
                if attempt in self._listeners and before.get((attempt, exercise)) != place:
                    self._put(attempt, Event("place", {"exercise": exercise, "place": place}))
            self._put(CLASS, CHANGED)

        self._call(told)

    def close(self) -> None:
        """End all streams, and those that open from now on."""
        self._closed = True
        for topic in list(self._listeners):
            self._put(topic, CLOSED)

    def _call(self, function: Callable[[], None]) -> None:
        # After the loop has ended no stream is open.
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
