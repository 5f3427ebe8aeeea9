"""What a sandbox told besides its replies, as a person reads it: why the points are held."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from grader.course.names import is_within
from grader.sandbox.wire.messages import Report
from grader.text import clean

# What an event says of the code that led to it; the first that fits.
_MEANINGS = (
    (
        r"(ag|cr|gi|tb)_frame|f_\w+|sys\._getframe|sys\._current_\w+",
        "reads a running function's frame",
    ),
    (r"__(builtins|closure|globals)__", "reads what a function holds of another module"),
    (r"__subclasses__|gc\.\w+", "looks through what this process holds"),
    (
        r"__code__|code\.__new__|function\.__new__|marshal\.loads|torch\.set_eval_frame|__(kw)?defaults__",
        "makes a function's code",
    ),
    (r"__class__", "makes an object one of another class"),
    (r"exec", "runs a text"),
    (r"import", "imports what Python tests itself with"),
    (r"open", "reads the source of what is not allowed"),
    (r"ctypes\.\w+(/buffer)?", "reaches into the process's memory"),
    (r"sys\.(addaudithook|monitoring\.\w+|setprofile|settrace)", "watches what runs"),
)
_LIBRARY = re.compile(r"([\w./-]+)\.py:([\w<>]+)")


def reasons(
    reports: Iterable[Report], lines: int, ordinary: Collection[str] = ()
) -> tuple[str, ...]:
    """Why the points of a file of so many lines are held, a sentence for each line and kind of event.

    What a course calls `ordinary` is no reason, by the name of the event or by a library's.
    """
    found: dict[tuple[int, str], str] = {}
    for report in reports:
        what = next((text for names, text in _MEANINGS if re.fullmatch(names, report.event)), "")
        if not what:
            # None is made that means nothing.
            found.setdefault((0, ""), "the sandbox was kept from telling what its code does")
            continue
        if report.event in ordinary:
            continue
        library = _LIBRARY.fullmatch(report.by)
        name = library[1].replace("/", ".") if library else ""
        if name and any(is_within(name, each) for each in ordinary):
            continue
        line = report.line if 0 < report.line <= lines else 0
        where = f"line {line} " if line else ""
        by = f" by {name}.{library[2]}" if library else ""
        found.setdefault((line, what), clean(f"{where}{what} as it runs ({report.event}{by})", 200))
    return tuple(found.values())
