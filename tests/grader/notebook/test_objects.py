"""The present object is judged, not its newest source or its first cell."""

from __future__ import annotations

import importlib
import math
import sys
from pathlib import Path
from typing import Any

import pytest

from grader.notebook.checking import check
from grader.notebook.composing import Gathering

STUB = '"""A stub."""\n\n\ndef part(x):\n    raise NotImplementedError\n'
ADD = """
def add_to_class(owner):
    def wrap(function):
        setattr(owner, function.__name__, function)
    return wrap
"""
CLASS = """
class Layer:
    scale = 2
    def f(self, x):
        return x
    def g(self, x):
        return self.f(x) * self.scale
"""
PART = "def part(x):\n    return Layer().g(x)"


def both(*cells: str) -> tuple[Any, Any, list[str]]:
    """Return `part(3)` in the notebook and in the file composed from it, and the notes."""
    here: dict[str, Any] = {"__name__": "__main__", "In": [""]}
    for number, cell in enumerate(cells, 1):
        here["In"].append(cell)
        exec(compile(cell, f"<cell {number}>", "exec", dont_inherit=True), here)
    gathering = Gathering(here, STUB)
    value = here["part"]
    is_definition = getattr(value, "__name__", "") == "part"
    assert gathering.add_definition(value) if is_definition else gathering.add_value("part", value)
    alone: dict[str, Any] = {"__name__": "part"}
    exec(compile(gathering.composed().source, "<composed>", "exec", dont_inherit=True), alone)
    return value(3), alone["part"](3), gathering.notes


@pytest.mark.parametrize(
    "cells",
    [
        [CLASS, ADD, "@add_to_class(Layer)\ndef f(self, x):\n    return x + 1", PART],
        [CLASS, "def f(self, x):\n    return x + 1\nLayer.f = f", PART],
        [CLASS, "def other(self, x):\n    return x + 1\nLayer.f = other", PART],
        [CLASS, "Layer.f = lambda self, x: x + 1", PART],
        [CLASS, "setattr(Layer, 'f', lambda self, x: x + 1)", PART],
        [CLASS, "@staticmethod\ndef f(x):\n    return x + 1\nLayer.f = f", PART],
        [CLASS, "Layer.extra = 5", "def part(x):\n    return Layer.extra + x"],
        [CLASS, "Layer.twice = property(lambda self: 7)", "def part(x):\n    return Layer().twice"],
        [CLASS, "Layer.f = Layer.g\nLayer.g = lambda self, x: 5", PART],
        [CLASS + "    def h(self):\n        return 1", "del Layer.h",
         "def part(x):\n    return hasattr(Layer, 'h')"],
        # Only the newest of two patches counts.
        [CLASS, "def f(self, x):\n    return x + 1\nLayer.f = f",
         "def f(self, x):\n    return x + 2\nLayer.f = f", PART],
        # The class was defined again after the patch, so the patch is gone.
        [CLASS, "def f(self, x):\n    return x + 1\nLayer.f = f", CLASS, PART],
        # The base class is patched.
        [CLASS, "class Mine(Layer):\n    pass", "Layer.f = lambda self, x: x + 1",
         "def part(x):\n    return Mine().g(x)"],
        # A method has the same name as a function that is used, too.
        [CLASS, "def f(self, x):\n    return x + 1\nLayer.f = f", "def f(x):\n    return 10 * x",
         "def part(x):\n    return f(Layer().g(x))"],
        # The function of the first cell is still used, though a newer one was defined at its line.
        ["def help_(x):\n    return 1", "old = help_", "def help_(x):\n    return 2",
         "help_ = old", "def part(x):\n    return help_(x)"],
        ["from math import *", "def floor(x):\n    return 100", "def part(x):\n    return floor(x)"],
        ["def floor(x):\n    return 100", "from math import *", "def part(x):\n    return floor(x)"],
        ["from math import floor as f", "from math import ceil as f", "def part(x):\n    return f(2.5)"],
        ["from math import floor as f", "import math\nf = math.ceil", "def part(x):\n    return f(2.5)"],
        ["help_ = lambda x: x + 1", "def part(x):\n    return help_(x)"],
        ["def g(a, b):\n    return a - b", "import functools\nhelp_ = functools.partial(g, 5)",
         "def part(x):\n    return help_(x)"],
        ["def g(x):\n    return x + 1", "help_ = g", "def part(x):\n    return help_(x)"],
        ["def plus(f):\n    def inner(x):\n        return f(x) + 1\n    return inner",
         "@plus\ndef help_(x):\n    return x", "def part(x):\n    return help_(x)"],
        ["def plus(f):\n    def inner(x):\n        return f(x) + 1\n    return inner",
         "def help_(x):\n    return x\nhelp_ = plus(help_)", "def part(x):\n    return help_(x)"],
        ["def plus(f):\n    def inner(x):\n        return f(x) + 1\n    return inner",
         "@plus\ndef part(x):\n    return x"],
        ["part = lambda x: x + 1"],
        ["def g(a, b):\n    return a - b", "import functools\npart = functools.partial(g, 5)"],
        ["for k in (1, 2):\n    def part(x):\n        return x + k"],
        ["if True:\n    def part(x):\n        return 1\nelse:\n    def part(x):\n        return 2"],
        ["n = 1", "def part(x):\n    return x + n", "n = 4"],
    ],
)  # fmt: skip
def test_the_present_object_is_composed(cells: list[str]) -> None:
    here, alone, notes = both(*cells)
    assert alone == here
    assert notes == []


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        (
            [CLASS, "def make(n):\n    def f(self, x):\n        return n\n    return f",
             "Layer.f = make(9)", PART],
            "Layer.f was put on the class after its own cell and is not judged: it keeps values of",
        ),
        (
            [CLASS, "exec('def f(self, x): return 9')\nLayer.f = f", PART],
            "Layer.f was put on the class after its own cell and is not judged: the source that",
        ),
        (
            [CLASS, "Layer.extra = object()", PART],
            "Layer.extra was put on the class after its own cell and is not judged: it is a value of type",
        ),
        (
            [CLASS, "class Mine(Layer):\n    pass", CLASS.replace("x\n", "x + 1\n", 1),
             "def part(x):\n    return Mine().g(x)"],
            "Mine was made from an older Layer than the one that is judged: run its cell again.",
        ),
    ],
)  # fmt: skip
def test_an_object_that_cannot_be_composed_gets_a_note(cells: list[str], told: str) -> None:
    _, _, notes = both(*cells)
    assert [note[: len(told)] for note in notes] == [told]


FILLED = """
@dataclass(order=True)
class Point:
    x: int = 2
    y: list = field(default_factory=list)
---
class Pair(NamedTuple):
    a: int
    b: int = 1
    def sum(self):
        return self.a + self.b
---
class Color(enum.Enum):
    RED = 4
---
@functools.total_ordering
class Order:
    def __lt__(self, other):
        return True
---
class Lazy:
    @functools.cached_property
    def a(self):
        return 1
    @classmethod
    def b(cls):
        return 2
    act = lambda self: 3
    alias = b
---
def part(x):
    own = Lazy().a + Lazy.b() + Lazy().act()
    return Point(x).x + Pair(x).sum() + Color.RED.value + (Order() <= Order()) + own
"""


def test_classes_that_decorators_fill_need_no_note() -> None:
    imports = "import enum, functools\nfrom dataclasses import dataclass, field\nfrom typing import NamedTuple"
    here, alone, notes = both(imports, *FILLED.split("---\n"))
    assert (alone, notes) == (here, [])


def test_a_definition_from_a_file_that_changed_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "my_own_work.py"
    path.write_text("def part(x):\n    return x + 1\n")
    module = importlib.import_module("my_own_work")
    try:
        path.write_text("def part(x):\n    return x + 2222\n")
        assert not Gathering(vars(module), STUB).add_definition(module.part)
        path.write_text("def part(x):\n    return x + 1\n\n")
        gathering = Gathering(vars(module), STUB)
        assert gathering.add_definition(module.part)
        assert b"return x + 1" in gathering.composed().source
    finally:
        del sys.modules["my_own_work"]


def test_the_error_names_an_import_that_took_a_name() -> None:
    course = Path(__file__).parents[1] / "courses" / "plain"
    math_name = type(sys)("__main__")
    greeting = math.floor
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "__main__", math_name)
        vars(math_name).update(greeting=greeting)
        told = "greeting is now from math: an import has taken its name"
        with pytest.raises(
            ValueError, match=f"No part of greeting .* run the cell that defines one.*{told}"
        ):
            check("greeting", course=course)
        with pytest.raises(ValueError, match="greeting is now from math, not yours"):
            check("greeting", greeting, course=course)
