"""`grade verify`: the options select the proofs, and all of them must hold."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
import pytest

from grader.cli import verify as command
from grader.errors import ExitCode
from tests.grader.command import invoke

PLAIN = Path(__file__).parents[1] / "courses" / "plain"


class Proofs:
    """Records the proofs that were asked for, without a judge. The kinds in `fails` do not hold."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.fails: set[str] = set()

    def __call__(self, *words: str) -> int:
        done = invoke("verify", *words, cwd=PLAIN)
        return done.exit_code

    def asking(self, kind: str) -> Any:
        def ask(course: object, exercises: object, *_: object, **options: Any) -> list[object]:
            self.asked.append((kind, options))
            return []

        return ask

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.asked]


@pytest.fixture
def proofs(monkeypatch: pytest.MonkeyPatch) -> Proofs:
    made = Proofs()
    for function, kind in (("prove", "proof"), ("mutate", "mutants"), ("forge", "words")):
        monkeypatch.setattr(command, function, made.asking(kind))
    # The first returns the number of complaints, the others return whether the proof holds.
    monkeypatch.setattr(command, "show_proofs", lambda *_, **__: 3 * ("proof" in made.fails))
    monkeypatch.setattr(command, "show_mutants", lambda *_: "mutants" not in made.fails)
    monkeypatch.setattr(command, "show_words", lambda *_: "words" not in made.fails)
    return made


@pytest.mark.parametrize(
    ("words", "kinds"),
    [
        ((), ["proof"]),
        (("greeting",), ["proof"]),
        (("--told",), ["proof"]),
        (("--write",), ["proof"]),
        (("--mutants",), ["mutants"]),
        (("--mutants", "greeting"), ["mutants"]),
        (("--mutants", "2", "--told"), ["mutants"]),
        (("--words",), ["words"]),
        (("--words", "--told"), ["proof", "words"]),
        (("--mutants", "--words"), ["mutants", "words"]),
        (("--mutants", "--points"), ["proof", "mutants"]),
        (("--words", "--worth"), ["proof", "words"]),
        (("--words", "--write"), ["proof", "words"]),
        (("--seeds", "5", "--mutants", "--words"), ["proof", "mutants", "words"]),
    ],
)
def test_the_options_select_the_proofs(
    proofs: Proofs, words: tuple[str, ...], kinds: list[str]
) -> None:
    assert proofs(*words) == ExitCode.FULL_MARKS
    assert proofs.kinds == kinds


@pytest.mark.parametrize("fails", ["proof", "mutants", "words"])
def test_every_proof_must_hold(proofs: Proofs, fails: str) -> None:
    proofs.fails = {fails}
    assert proofs("--seeds", "1", "--mutants", "2", "--words") == ExitCode.BELOW
    assert proofs.kinds == ["proof", "mutants", "words"], "the others are still made"


@pytest.mark.parametrize(
    ("words", "most", "names"),
    [
        (["--mutants"], sys.maxsize, ()),
        (["--mutants", "7"], 7, ()),
        (["--mutants", "glu"], sys.maxsize, ("glu",)),
        (["--mutants", "7", "glu"], 7, ("glu",)),
        (["glu", "--mutants", "gelu"], sys.maxsize, ("glu", "gelu")),
        (["--mutants", "--words"], sys.maxsize, ()),
        (["glu"], None, ("glu",)),
    ],
)
def test_only_a_number_after_mutants_belongs_to_it(
    words: list[str], most: int | None, names: tuple[str, ...]
) -> None:
    context = command.verify.make_context("verify", words)
    assert (context.params["mutants"], context.params["exercises"]) == (most, names)


@pytest.mark.parametrize("words", [["--mutants", "0"], ["--mutants", "-5"], ["--seeds", "0"]])
def test_a_number_is_positive(words: list[str]) -> None:
    with pytest.raises(click.UsageError):
        command.verify.make_context("verify", words)
