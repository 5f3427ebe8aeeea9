"""A gradebook in a thread of its own: SQLite's connections belong to the thread that opened them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Generic, TypeVar

B = TypeVar("B")
T = TypeVar("T")


class BookThread(Generic[B]):
    """What a gradebook is asked, one thing after the other; a context manager that opens and closes it."""

    def __init__(self, name: str, opened: Callable[[], AbstractContextManager[B]]) -> None:
        self._opened = opened
        self._stack = contextlib.ExitStack()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._book: B | None = None

    def __enter__(self) -> BookThread[B]:
        try:
            self._thread.submit(self._open).result()
        except BaseException:
            self._thread.shutdown()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        # After all that was asked for before.
        self._thread.submit(self._stack.close).result()
        self._thread.shutdown()

    def _open(self) -> None:
        self._book = self._stack.enter_context(self._opened())

    def ask(self, question: Callable[[B], T]) -> Future[T]:
        """Have the book asked in its thread."""

        def asked() -> T:
            assert self._book is not None, "it is asked before it is open"
            return question(self._book)

        return self._thread.submit(asked)

    async def answer(self, question: Callable[[B], T]) -> T:
        """The same for a coroutine, which waits and blocks no other."""
        return await asyncio.wrap_future(self.ask(question))
