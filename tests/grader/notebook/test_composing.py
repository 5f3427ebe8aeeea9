"""The file composed from cells: the newest definition of a name, with its imports, constants and helpers."""

from __future__ import annotations

from typing import Any

import pytest

from grader.notebook.composing import Gathering

STUB = '"""A stub."""\n\n\ndef part(x):\n    raise NotImplementedError\n'


def ran(*cells: str) -> dict[str, Any]:
    """Return the namespace of a notebook after these cells ran. A cell may raise."""
    namespace: dict[str, Any] = {"__name__": "__main__", "In": [""]}
    for cell in cells:
        namespace["In"].append(cell)
        try:
            exec(compile(cell, f"<cell {len(namespace['In']) - 1}>", "exec"), namespace)
        except (ArithmeticError, SyntaxError):
            continue
    return namespace


def composed(*cells: str) -> tuple[dict[str, Any], list[str], str]:
    """Compose the file of `part` and run it by itself. Return its names, the notes and its source."""
    namespace = ran(*cells)
    gathering = Gathering(namespace, STUB)
    assert gathering.add_definition(namespace["part"])
    source = gathering.composed().source.decode()
    alone: dict[str, Any] = {"__name__": "part"}
    exec(compile(source, "<composed>", "exec"), alone)
    return alone, gathering.notes, source


@pytest.mark.parametrize(
    ("cells", "value"),
    [
        (["def part(x): return 1", "def part(x): return 2"], 2),
        (["def part(x): return 1\ndef part(x): return 2"], 2),
        (["def part(x): return help_(x)", "def help_(x): return 1", "def help_(x): return 2"], 2),
        (["def part(x): return 2", "class Other:\n    def part(self): return 1"], 2),
        (["def part(x): return 2", "1 / 0\n\ndef part(x): return 1"], 2),
        (["def part(x): return 2", "def part(x: return 1"], 2),
        (["import math", "def part(x): return math.floor(2.5)"], 2),
        (["import math as m, os", "def part(x): return m.floor(2.5)"], 2),
        (["from math import floor as f, pi", "def part(x): return f(pi) - 1"], 2),
        (["from math import *", "def part(x): return floor(2.5)"], 2),
        (["import xml.dom", "import xml.sax", "def part(x): return xml.dom and xml.sax and 2"], 2),
        (["N = 1 + 1\nM = {'a': [N, 2.5]}", "def part(x): return M['a'][0]"], 2),
        (["I = float('inf')", "def part(x): return 2 if I > 1e300 else 1"], 2),
        (["from typing import TypeVar", "T = TypeVar('T')", "def part(x: T) -> T: return 2"], 2),
        (["class Base: two = 2", "class Mine(Base): pass", "def part(x): return Mine.two"], 2),
        (["import functools", "@functools.cache\ndef part(x):\n    return 2"], 2),
        (["def a(x): return b(x) if x else 2\ndef b(x): return a(x - 1)", "def part(x): return a(x)"], 2),
        (["def part(x): return part(x - 1) if x else 2"], 2),
    ],
)  # fmt: skip
def test_the_newest_definition_comes_with_the_names_it_uses(cells: list[str], value: int) -> None:
    alone, notes, _ = composed(*cells)
    assert alone["part"](3) == value
    assert notes == []


def test_annotations_stay_unevaluated_after_a_future_import() -> None:
    alone, notes, source = composed(
        "from __future__ import annotations", "def part(x: Unknown):\n    return 2"
    )
    assert source.startswith("from __future__ import annotations\n")
    assert alone["part"](3) == 2
    assert notes == ["Unknown is used in In[2] but not defined."]


def test_a_name_without_a_definition_or_constant_gets_a_note() -> None:
    _, notes, _ = composed(
        "import threading\nlock = threading.Lock()",
        "def outer():\n    return lambda x: x\nmade = outer()",
        "def part(x):\n    return made(lock, nowhere, limits)",
        "limits = [float('inf')]",
    )
    assert [note.partition(" was ")[0] for note in notes] == [
        "limits is used in In[3], but it is a value of type list, and",
        "lock is used in In[3], but it is a value of type lock, and",
        "made is used in In[3], but it is a value of type function, and",
        "nowhere is used in In[3] but not defined.",
    ]


def test_a_function_within_a_function_is_found_by_its_line() -> None:
    _, notes, source = composed(
        "def part(x): return 1",
        "def outer():\n    two = 2\n    def part(x):\n        return two\n    return part\npart = outer()",
    )
    assert "        return two" not in source
    assert "    return two" in source
    assert notes == ["two is used in In[2] but not defined."]
