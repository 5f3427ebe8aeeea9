"""Notebooks: judge definitions of cells with the same judge and behind the same walls as `grade run`.

    from grader.notebook import check

    check("glu", GatedLinearUnit, gradient_flow)

or, after `%load_ext grader.notebook`, a cell that begins with `%%grade glu`.

`checking` judges the file that `composing` makes of definitions in cells; `verdict` shows the result.
"""

from __future__ import annotations

from grader.notebook.checking import check, load_ipython_extension
from grader.notebook.verdict import CheckResult

__all__ = ["CheckResult", "check", "load_ipython_extension"]
