"""The message for a file that is not Python: the line, the kind, and a remedy."""

from __future__ import annotations

import sys

import pytest

from grader.course.stub import Stub
from grader.submissions.not_python import newer_names, newer_syntax
from grader.submissions.submission import ExerciseFile, State

CODE = "import torch\n\n\ndef f(x):\n    y = x + 1\n    return y\n"
MERGE = CODE.replace(
    "    return y\n", "<<<<<<< HEAD\n    return y\n=======\n    return x\n>>>>>>> origin/main\n"
)
# Error messages of Python 3.11 for later syntax, if they are specific.
_SAID = {"3.12": "f-string: ", "3.14": "invalid syntax", "3.13": "expected '('"}
NOTEBOOK = '{"cells": [{"cell_type": "code", "source": ["import torch"]}], "nbformat": 4}'


@pytest.mark.parametrize(
    ("source", "line", "message"),
    [
        (NOTEBOOK, 1, "it is a notebook, not a Python file; copy the code"),
        (NOTEBOOK.replace("4}", '4, "metadata": null}'), 1, "it is a notebook"),
        (MERGE, 6, "a merge left its marks"),
        (MERGE.replace("\n", "\r\n"), 6, "a merge left its marks"),
        (CODE.replace("    y =", "|||||||\n    y ="), 5, "a merge left its marks"),
        (f"```python\n{CODE}```\n", 1, "marks code in a text"),
        (f"{CODE}\n```\n", 8, "marks code in a text"),
        (f">>> import os\n{CODE}", 1, "a prompt was copied"),
        (f"In [1]: import os\n{CODE}", 1, "a prompt was copied"),
        (f"{CODE}%matplotlib inline\n", 7, "lines with % or ! are for notebooks"),
        (f"{CODE}!pip install einops\n", 7, "lines with % or ! are for notebooks"),
        (CODE.replace("    return", "\u00a0   return"), 6, "U+00A0; it looks like a space"),
        (CODE.replace("x + 1", "\u201cx\u201d"), 5, "type a plain quotation mark"),
        (CODE.replace("x + 1", "x \u2212 1"), 5, "(U+2212); type - instead"),
        (CODE.replace("x + 1", "max\uff08x)"), 5, "(U+FF08); type ( instead"),
        (CODE.replace("x + 1", "x\u00b2"), 5, "(U+00B2); type **2 instead"),
        # Python's own message is used.
        (f"{CODE}print((1)\n", 7, "'(' was never closed"),
        (CODE.replace("    return", "\treturn"), 6, "inconsistent use of tabs"),
        (CODE.replace("x + 1", "x +"), 5, "invalid syntax"),
    ],
)
def test_a_file_that_is_not_python_is_explained(source: str, line: int, message: str) -> None:
    look = ExerciseFile(source.encode()).look(Stub(CODE.encode()))
    assert (look.state, look.line) == (State.INVALID, line)
    assert message in look.error


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n", "of Git LFS"),
        (b"\n<!DOCTYPE html>\n<html><title>Log in</title></html>\n", "a web page"),
        (b"\xef\xbb\xbf<HTML lang='en'>", "a web page"),
        (b"bplist00\xd1\x01\x02_\x10\x0fWebMainResource", "a web page"),
        (rb"{\rtf1\ansi{\fonttbl}def f(x): return x}", "a document (RTF)"),
        (b"%PDF-1.7\n%\xe2\xe3", "a PDF"),
        (b"PK\x03\x04\x14\0\6\0word/document.xml", "a zip archive or an office"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1", "an office document"),
        (b"\x1f\x8b\x08\0\0", "an archive"),
        (b"\x89PNG\r\n\x1a\n", "an image"),
        (b"\xff\xd8\xff\xe0", "an image"),
        (b"\xa7\r\r\n\0\0\0\0", "compiled Python"),
        (b"\0\5\x16\7\0\2", "data of macOS about a file"),
        (b"../solution/glu.py", "the text of a link"),
        (b"..\\solution\\glu.py\n", "the text of a link"),
        (b"solution/glu.py\n", "the text of a link"),
        (b"glu.py", "the text of a link"),
        (b"[InternetShortcut]\r\nURL=http://x\r\n", "the text of a link"),
        (b"diff --git a/glu.py b/glu.py\n", "a patch"),
        (b"--- a/glu.py\n+++ b/glu.py\n@@ -1 +1 @@\n-x\n+y\n", "a patch"),
        (b'{"a": true, "b": [null, 1]}', "it is JSON"),
        (b"def f(x):\n    print x\n", "written for Python 2"),
        (b"try:\n    f()\nexcept ValueError, error:\n    pass\n", "written for Python 2"),
        (b"if 1 <> 2:\n    pass\n", "written for Python 2"),
        (NOTEBOOK.encode(), "it is a notebook"),
        ("x = 'é'\n".encode("latin-1"), "is not UTF-8"),
        ("x = 1\n".encode("utf-16"), "saved as UTF-16"),
    ],
)
def test_a_file_of_another_kind_is_named_and_flagged(source: bytes, message: str) -> None:
    look = ExerciseFile(source).look(Stub(CODE.encode()))
    assert look.state is State.INVALID and message in look.error
    assert ExerciseFile(source).is_foreign


@pytest.mark.parametrize(
    "source", ["def f(:\n", "print((1)\n", MERGE, f">>> {CODE}", "x = 1 / 2.py\n", "x = = 1\n"]
)
def test_a_syntax_error_is_not_flagged(source: str) -> None:
    assert ExerciseFile(source.encode()).state(Stub(b"")) is State.INVALID
    assert not ExerciseFile(source.encode()).is_foreign


@pytest.mark.parametrize(
    ("source", "line", "since"),
    [
        ("def first[T](items: list[T]) -> T:\n    return items[0]\n", 1, "3.12"),
        ("class Box[T]:\n    pass\n", 1, "3.12"),
        ("import torch\n\ntype Pair = tuple[int, int]\n", 3, "3.12"),
        ('names = {"a": 1}\nprint(f"{names["a"]}")\n', 2, "3.12"),
        ("print(f\"{'\\n'.join(names)}\")\n", 1, "3.12"),
        ("def f[T = int](x: T): ...\n", 1, "3.13"),
        ("try:\n    pass\nexcept ValueError, TypeError:\n    pass\n", 3, "3.14"),
        ('x = t"{name}"\n', 1, "3.14"),
        ("lazy import torch\n", 1, "3.15"),
    ],
)
def test_syntax_of_a_newer_python_is_recognized(source: str, line: int, since: str) -> None:
    words = f"is syntax of Python {since}, but Python 3.11 judges here"
    # This is the message under 3.11. A newer Python that runs the tests may accept the syntax.
    assert words in newer_syntax(source.splitlines()[line - 1], _SAID.get(since, ""), (3, 11))
    assert not newer_syntax(source.splitlines()[line - 1], _SAID.get(since, ""), (3, 15))
    if sys.version_info < tuple(map(int, since.split("."))):
        look = ExerciseFile(source.encode()).look(Stub(CODE.encode()))
        assert (look.state, look.line, look.is_foreign) == (State.INVALID, line, True)
        assert f"is syntax of Python {since}, but Python" in look.error


@pytest.mark.parametrize(
    "line", ["def f(x:", 'print(f"{x")', "type = = 3", "except ValueError", "x = cast('a' 'b"]
)
def test_syntax_wrong_in_every_python_is_not_called_newer(line: str) -> None:
    look = ExerciseFile(f"{line}\n".encode()).look(Stub(CODE.encode()))
    assert look.state is State.INVALID
    assert "is syntax of" not in look.error


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "from typing import Any, override\n",
            "typing.override is available since Python 3.12, but",
        ),
        ("import typing as t\n\n@t.override\ndef f(): ...\n", "typing.override is available since"),
        (
            "import itertools\n\ndef f(x):\n    return itertools.batched(x, 2)\n",
            "itertools.batched",
        ),
        ("from string import templatelib\n", "string.templatelib is available since Python 3.14"),
        ("import compression.zstd\n", "compression is available since Python 3.14"),
        ("get_ipython().run_line_magic('matplotlib', 'inline')\n", "the export of a notebook"),
        ("import typing\n\noverride = typing.Any\n", ""),
        ("def f(:\n", ""),
    ],
)
def test_names_of_a_newer_library_are_recognized(source: str, message: str) -> None:
    note = newer_names(source.encode(), (3, 11))
    assert message in note if message else not note
    assert not newer_names(source.encode(), (3, 15)) or "notebook" in message


@pytest.mark.parametrize(
    "source", ['x = {"cells": 1}\n', "x = 7\ny = (x\n     % 2)\n", '"""\n>>> f(1)\n```\n"""\n']
)
def test_python_that_looks_like_something_else_is_accepted(source: str) -> None:
    assert ExerciseFile(source.encode()).state(Stub(CODE.encode())) is State.EDITED
