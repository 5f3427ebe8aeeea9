"""Names that nothing in a course may have, because a system, Python or pytest uses them."""

from __future__ import annotations

import keyword
import sys

# Names of devices: Windows opens the device, with any folder and ending.
_DEVICES = frozenset(
    ("con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10)))
)
# An exercise is imported under its id; these modules are imported beside it.
_IMPORTED = frozenset(("grader", "matplotlib", "msgspec", "numpy", "pytest", "torch"))


def why_no_folder(name: str) -> str:
    """Return why a chapter or assignment may not have this name; empty if it may."""
    if name in _DEVICES:
        return "Windows has a device of this name, and can make no file or folder of it"
    return ""


def why_no_exercise(name: str) -> str:
    """Return why an exercise may not have this id; empty if it may."""
    if name in sys.stdlib_module_names or keyword.iskeyword(name) or name in _IMPORTED:
        return "Python would import the student's file for its own"
    if name == "conftest":
        return "pytest runs a file of this name before any test"
    if name in ("test", "tests"):
        return "Python has a package `test`, and `tests` is the folder of the suites"
    return why_no_folder(name)


def why_not_given(name: str) -> str:
    """Return why a given file may not have this name, without its ending; empty if it may."""
    if name.startswith(("test_", "probe_", "plot_")):
        return "files that begin like this are suites, probes and plots"
    return why_no_exercise(name)
