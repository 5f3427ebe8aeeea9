"""Notebooks: judge what was defined in cells, by the same judge and behind the same walls as `grade run`.

from grader.notebook import check

check("glu", GatedLinearUnit, gradient_flow)

or, after `%load_ext grader.notebook`, a cell that begins with `%%grade glu`.

`checking` judges what `composing` makes of the definitions in the cells that ran; `verdict` is the result on
show.
"""

from __future__ import annotations

from grader.notebook.checking import check, load_ipython_extension
from grader.notebook.verdict import CheckResult

__all__ = ["CheckResult", "check", "load_ipython_extension"]
