"""Handshakes: only the browser that began one ends it, once and in time, and nobody can make one up."""

from __future__ import annotations

import contextlib
import itertools

import pytest

from grader.serve.http import Refusal
from grader.serve.sign_in.handshakes import Handshakes, browser_value

BROWSER, OTHER = browser_value(""), browser_value("")


def is_refused(made: Handshakes, browser: str, state: str) -> bool:
    """Whether this is no answer to a handshake; one that is an answer is used up."""
    try:
        with made.answered(browser, state):
            return False
    except Refusal as refusal:
        return refusal.status_code == 403


def test_a_handshake_ends_as_it_began() -> None:
    made = Handshakes("test")
    began = made.begin(BROWSER, "/exercise/glu")
    with made.answered(BROWSER, began.state) as ended:
        assert ended == began
        # A second answer does not come in between.
        assert is_refused(made, BROWSER, began.state)
    assert is_refused(made, BROWSER, began.state)
    # RFC 7636 has verifiers of 43 to 128 of these characters.
    assert len(began.verifier) == 43 and began.verifier.replace("-", "").replace("_", "").isalnum()


def test_several_begin_in_one_browser_and_none_is_another_s() -> None:
    made = Handshakes("test")
    begun = [made.begin(BROWSER, "") for _ in range(3)]
    parts = [*itertools.chain.from_iterable(each[:3] for each in begun)]
    assert len({*parts}) == len(parts)
    assert not any(is_refused(made, BROWSER, each.state) for each in begun)


def test_nobody_answers_for_another_browser_or_another_kind() -> None:
    made = Handshakes("test")
    state = made.begin(BROWSER, "/").state
    for browser in (OTHER, "", BROWSER[:-1], BROWSER.upper(), "x" * 32):
        assert is_refused(made, browser, state)
    assert is_refused(Handshakes("test"), BROWSER, state)
    began, random, note, seal = state.split(".")
    for made_up in (
        "",
        "...",
        ".".join((began, random, "L2NsYXNz", seal)),
        ".".join((str(int(began) + 1), random, note, seal)),
        ".".join((began, random, note, "")),
        ".".join((began, random, seal)),
        state + "=",
        state + "\N{KELVIN SIGN}",
        "x" * 5000,
    ):
        assert is_refused(made, BROWSER, made_up)
    assert not is_refused(made, BROWSER, state)


def test_after_ten_minutes_one_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("grader.serve.sign_in.handshakes.time.monotonic", lambda: now)
    made = Handshakes("test")
    early, late = made.begin(BROWSER, "").state, made.begin(BROWSER, "").state
    now += 600
    assert not is_refused(made, BROWSER, early)
    now += 2
    assert is_refused(made, BROWSER, late)
    # A state is remembered at least as long as it holds, and not much longer.
    assert is_refused(made, BROWSER, early)
    assert not is_refused(made, BROWSER, made.begin(BROWSER, "").state)
    assert len(made._answered) == 1


def test_an_answer_that_fails_may_be_tried_again_and_takes_no_memory() -> None:
    made = Handshakes("test")
    state = made.begin(BROWSER, "").state
    for _ in range(3):
        with contextlib.suppress(ValueError), made.answered(BROWSER, state):
            raise ValueError
    assert not made._answered
    assert not is_refused(made, BROWSER, state)
