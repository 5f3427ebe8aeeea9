"""Names that are taken, for exercises, files and folders, and how dotted names of code contain one another."""

from __future__ import annotations

import keyword
import sys

# The names of devices: Windows opens the device, whatever folder and ending are named with it.
_DEVICES = frozenset(
    ("con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10)))
)
# The file of an exercise is imported under its id; these are imported beside it.
_IMPORTED = frozenset(("grader", "matplotlib", "msgspec", "numpy", "pytest", "torch"))


def is_within(name: str, outer: str) -> bool:
    """Whether a dotted name is `outer` or below it, as `torch.optim.Adam` is within `torch.optim`."""
    return f"{name}.".startswith(f"{outer}.")


def why_no_folder(name: str) -> str:
    """Why no chapter or assignment may have this name; empty if one may."""
    if name in _DEVICES:
        return "Windows has a device of this name, and can make no file or folder of it"
    return ""


def why_no_exercise(name: str) -> str:
    """Why no exercise may have this id; empty if one may."""
    if name in sys.stdlib_module_names or keyword.iskeyword(name) or name in _IMPORTED:
        return "Python would import the student's file for its own"
    if name == "conftest":
        return "pytest runs a file of this name before any test"
    if name in ("test", "tests"):
        return "Python has a package `test`, and `tests` is the folder of the suites"
    return why_no_folder(name)


def why_not_given(name: str) -> str:
    """Why no file that is given with an exercise may have this name, without its ending; empty if one may."""
    if name.startswith(("test_", "probe_", "plot_")):
        return "files that begin so are suites, probes and plots"
    return why_no_exercise(name)
