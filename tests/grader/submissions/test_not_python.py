"""What a file that is no Python is told: where the fault stands, what it is, and what to do."""

from __future__ import annotations

import pytest

from grader.course.stub import Stub
from grader.submissions.submission import ExerciseFile, State

CODE = "import torch\n\n\ndef f(x):\n    y = x + 1\n    return y\n"
MERGE = CODE.replace(
    "    return y\n", "<<<<<<< HEAD\n    return y\n=======\n    return x\n>>>>>>> origin/main\n"
)
NOTEBOOK = '{"cells": [{"cell_type": "code", "source": ["import torch"]}], "nbformat": 4}'


@pytest.mark.parametrize(
    ("source", "line", "told"),
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
        # Python says it best.
        (f"{CODE}print((1)\n", 7, "'(' was never closed"),
        (CODE.replace("    return", "\treturn"), 6, "inconsistent use of tabs"),
        (CODE.replace("x + 1", "x +"), 5, "invalid syntax"),
    ],
)
def test_a_file_that_is_no_python(source: str, line: int, told: str) -> None:
    look = ExerciseFile(source.encode()).look(Stub(CODE.encode()))
    assert (look.state, look.line) == (State.INVALID, line)
    assert told in look.error


@pytest.mark.parametrize(
    "source", ['{"cells": 1}\n', "x = 7\ny = (x\n     % 2)\n", '"""\n>>> f(1)\n```\n"""\n']
)
def test_python_that_looks_like_something_else_is_python(source: str) -> None:
    assert ExerciseFile(source.encode()).state(Stub(CODE.encode())) is State.EDITED
