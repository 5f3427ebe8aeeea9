"""Handshakes cannot be forged, and each works once, within ten minutes, in the browser that began it."""

from __future__ import annotations

import contextlib
import itertools

import pytest

from grader.serve.http import Refusal
from grader.serve.sign_in.handshakes import Handshakes, browser_value

BROWSER, OTHER = browser_value(""), browser_value("")


def is_refused(made: Handshakes, browser: str, state: str) -> bool:
    """Whether `state` is refused. If it is accepted, it is used up."""
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
        # A second answer is refused while the first is processed.
        assert is_refused(made, BROWSER, began.state)
    assert is_refused(made, BROWSER, began.state)
    # RFC 7636 allows verifiers of 43 to 128 such characters.
    assert len(began.verifier) == 43 and began.verifier.replace("-", "").replace("_", "").isalnum()


def test_one_browser_can_begin_several_handshakes() -> None:
    made = Handshakes("test")
    begun = [made.begin(BROWSER, "") for _ in range(3)]
    parts = [*itertools.chain.from_iterable(each[:3] for each in begun)]
    assert len({*parts}) == len(parts)
    assert not any(is_refused(made, BROWSER, each.state) for each in begun)


def test_other_browsers_and_made_up_states_are_refused() -> None:
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


def test_a_handshake_expires_after_ten_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("grader.serve.sign_in.handshakes.time.monotonic", lambda: now)
    made = Handshakes("test")
    early, late = made.begin(BROWSER, "").state, made.begin(BROWSER, "").state
    now += 600
    assert not is_refused(made, BROWSER, early)
    now += 2
    assert is_refused(made, BROWSER, late)
    # Used states are remembered for as long as they are valid, and not much longer.
    assert is_refused(made, BROWSER, early)
    assert not is_refused(made, BROWSER, made.begin(BROWSER, "").state)
    assert len(made._answered) == 1


def test_a_failed_answer_can_be_repeated() -> None:
    made = Handshakes("test")
    state = made.begin(BROWSER, "").state
    for _ in range(3):
        with contextlib.suppress(ValueError), made.answered(BROWSER, state):
            raise ValueError
    assert not made._answered
    assert not is_refused(made, BROWSER, state)
