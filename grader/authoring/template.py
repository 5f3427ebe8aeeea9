"""The templates of what the grader writes for people: files beside this one, with @names@ to fill in."""

from __future__ import annotations

import re
from importlib import resources

# `$` and `{` stand in workflows and in Python for what they are.
_NAME = re.compile(r"@([a-z_]+)@")


def fill(template: str, **values: str) -> str:
    """The text of a template with every @name@ replaced; a name without a value is a KeyError.

    Values are not searched for names again: they may hold any text.
    """
    # Not `joinpath` with several parts, which namespace readers of Python 3.11 do not take.
    file = resources.files("grader.authoring") / "templates" / f"{template}.txt"
    text = file.read_text(encoding="utf-8")
    return _NAME.sub(lambda match: values[match[1]], text)
