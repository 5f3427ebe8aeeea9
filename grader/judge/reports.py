"""The events that a sandbox reported, as reasons why the points are held."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from grader.course.names import is_within
from grader.results import AS_IT_RUNS
from grader.sandbox.wire.messages import Report
from grader.text import clean, counted

# The meaning of events by their names; the first match counts.
_MEANINGS = (
    (
        r"(ag|cr|gi|tb)_frame|f_\w+|sys\._getframe|sys\._current_\w+",
        "reads a running function's frame",
    ),
    (r"__(builtins|closure|globals)__", "reads variables of another module's function"),
    (r"__subclasses__|gc\.\w+", "searches all objects in the process"),
    (
        r"__code__|code\.__new__|function\.__new__|marshal\.loads|torch\.set_eval_frame|__(kw)?defaults__",
        "makes or changes a function's code",
    ),
    (r"__class__", "changes an object's class"),
    (r"exec", "runs code from a string"),
    (r"import", "imports a module of Python's own tests"),
    (r"open", "reads the source of a forbidden function"),
    (r"ctypes\.\w+(/buffer)?", "reaches into the process's memory"),
    (r"sys\.(addaudithook|monitoring\.\w+|setprofile|settrace)", "watches running code"),
)
_LIBRARY = re.compile(r"([\w./-]+)\.py:([\w<>]+)")


def reasons(
    reports: Iterable[Report], lines: int, ordinary: Collection[str] = ()
) -> tuple[str, ...]:
    """Return the reasons why the points of a file are held, one for each kind of event, with its first line.

    `lines` is the length of the file. Events and libraries that the course calls `ordinary` are left out.
    """
    found: dict[str, str] = {}
    places: dict[str, set[int]] = {}
    for report in reports:
        action = next((text for names, text in _MEANINGS if re.fullmatch(names, report.event)), "")
        if not action:
            # The sandbox itself reports no other events.
            found.setdefault("", "the code kept the sandbox from reporting its actions")
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
        reason = clean(f"{where}{action} {AS_IT_RUNS} ({report.event}{by})", 200)
        found.setdefault(action, reason)
        places.setdefault(action, set()).add(line)
    return tuple(
        f"{reason} (and on {counted(more, 'more line')})"
        if (more := len(places.get(action, ())) - 1) > 0
        else reason
        for action, reason in found.items()
    )
