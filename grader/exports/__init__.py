"""Results in the formats of others: one module a format in `formats`, each written from entries alone.

`files` declares a format, reads the entries and writes its files; `disclosure` is what students read of
hidden tests. `verdicts` and `texts` are what formats say of a result, safely, `feedback` is what a student gets
back; `table` is CSV, and `matching` finds people in the rows of a template. `report` is a class as pages,
`term` a whole term.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from grader.exports import formats

if TYPE_CHECKING:
    from grader.exports.files import ClassFormat, StudentFormat

__all__ = ["FORMATS"]


class _Formats(Mapping[str, "ClassFormat | StudentFormat"]):
    """The formats by the names of their modules; a module is imported when its format is asked for."""

    def __getitem__(self, name: str) -> ClassFormat | StudentFormat:
        if name not in list(self):
            raise KeyError(name)
        chosen: ClassFormat | StudentFormat = importlib.import_module(
            f"{formats.__name__}.{name}"
        ).FORMAT
        return chosen

    def __iter__(self) -> Iterator[str]:
        return (module.name for module in pkgutil.iter_modules(formats.__path__))

    def __len__(self) -> int:
        return sum(1 for _ in self)


FORMATS = _Formats()
