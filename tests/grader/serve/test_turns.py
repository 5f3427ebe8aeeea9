"""Turns for reading submissions, and a limit for refused ones."""

from __future__ import annotations

import asyncio

import pytest

from grader.serve import turns as module
from grader.serve.http import Refusal
from grader.serve.turns import MAX_REFUSED, RefusedHandIns, Turns


def test_the_student_served_longest_ago_is_next() -> None:
    order: list[str] = []

    async def read(turns: Turns, who: str) -> None:
        async with turns.turn(who):
            order.append(who)
            await asyncio.sleep(0)

    async def everybody() -> None:
        turns = Turns(1)
        many = [asyncio.create_task(read(turns, who)) for who in ("eve", "mal") * 3]
        await asyncio.sleep(0)
        await asyncio.gather(*many, asyncio.create_task(read(turns, "ada")))

    asyncio.run(everybody())
    # ada came last but was never served, so she waits only for the first turns of eve and mal.
    assert order == ["eve", "mal", "ada", "eve", "mal", "eve", "mal"]


def test_hanging_up_frees_the_place() -> None:
    async def hung_up() -> None:
        turns = Turns(1)
        async with turns.turn("eve"):
            waiting = asyncio.create_task(turns.turn("mal").__aenter__())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.sleep(0)
            given = asyncio.create_task(turns.turn("zoe").__aenter__())
            await asyncio.sleep(0)
        # The turn passes to zoe, who hangs up before she learns of it.
        given.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given
        async with asyncio.timeout(60), turns.turn("ada"):
            pass

    asyncio.run(hung_up())


def test_refusals_count_only_against_their_student() -> None:
    refused = RefusedHandIns()
    for _ in range(MAX_REFUSED):
        refused.check("eve")
        refused.add("eve")
    with pytest.raises(Refusal, match="20 submissions of yours") as too_many:
        refused.check("eve")
    assert too_many.value.status_code == 429
    assert too_many.value.headers is not None and int(too_many.value.headers["Retry-After"]) > 3000
    refused.check("ada")


def test_only_the_newest_turns_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Strangers' addresses also take turns, and there is no limit to their number."""
    monkeypatch.setattr(module, "_MAX_REMEMBERED", 3)

    async def remembered() -> list[str]:
        turns = Turns(1)
        for who in ("eve", "mal", "eve", "zoe", "ada"):
            async with turns.turn(who):
                pass
        return list(turns._last)

    assert asyncio.run(remembered()) == ["eve", "zoe", "ada"]
