"""Global modes that a student's file leaves on, as the cause of tests that fail because of them.

Theory of operation. A sandbox reports the modes that importing the file changed. Failed tests run once more in
a sandbox that restores these modes. If a test passes there, it failed because of the mode; its message then
says so, in the same words and with the same line for every test. The points do not change. Only modes in the
table here are used from the sandbox's report, and the line is found in the syntax tree.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

import msgspec

from grader.judge.text import finding
from grader.results import Cause, Outcome, Place, TestResult, Visibility

# For each mode that a sandbox reports: its effect, and the functions that set it.
_MODES = {
    "grad": ("gradients are switched off", ("set_grad_enabled", "no_grad", "inference_mode")),
    "device": ("tensors are made on another device", ("set_default_device",)),
    "dtype": (
        "tensors are made with another dtype",
        ("set_default_dtype", "set_default_tensor_type"),
    ),
    "autocast": ("operators compute in another dtype", ("autocast", "set_autocast_enabled")),
    "deterministic": (
        "only deterministic algorithms may run",
        ("use_deterministic_algorithms", "set_deterministic_debug_mode"),
    ),
    "anomaly": (
        "the backward pass is checked for NaN",
        ("set_detect_anomaly", "detect_anomaly", "set_anomaly_enabled"),
    ),
    "dispatch": ("a mode of your own intercepts each operator", ("__enter__", "enter_context")),
    "warnings": (
        "warnings are filtered differently",
        ("simplefilter", "filterwarnings", "resetwarnings", "filters"),
    ),
}
_TRIED = (Outcome.FAILED, Outcome.ERROR, Outcome.TIMEOUT)


def told_by_modes(
    modes: Sequence[str],
    tree: ast.Module,
    file: str,
    results: Sequence[TestResult],
    passes: Callable[[Sequence[TestResult]], set[tuple[Visibility, str]]],
) -> list[TestResult]:
    """Return the results, with the modes as the cause of failed tests that pass without them.

    `passes` runs tests with the modes restored, and returns the keys of tests that pass.
    """
    known = [mode for mode in _MODES if mode in modes]
    tried = [result for result in results if result.outcome in _TRIED and not result.refused]
    if not known or not tried:
        return list(results)
    passed = passes(tried)
    line, text = _sentence(known, tree)
    place = Place(file, line, "<module>") if line else None
    return [
        msgspec.structs.replace(
            result,
            # As if the code itself had ended the test: the hint is for another mistake.
            outcome=Outcome.ERROR,
            message=text,
            finding=finding([text], Cause.OTHER, text),
            place=place,
        )
        if (result.visibility, result.name) in passed and result in tried
        else result
        for result in results
    ]


def _sentence(modes: Sequence[str], tree: ast.Module) -> tuple[int | None, str]:
    """Return the line that sets the first of these modes, and the sentence about all of them."""
    set_by = [(_setter(tree, _MODES[mode][1]), _MODES[mode][0]) for mode in modes]
    parts = [
        f"{effect} ({name}, line {line})" if line else effect for (line, name), effect in set_by
    ]
    text = (
        "Importing your file changes a global mode for all code that runs afterwards: "
        f"{'; '.join(parts)}. Without this change, the test passes."
    )
    return min((line for (line, _), _ in set_by if line), default=None), text


def _setter(tree: ast.Module, names: Sequence[str]) -> tuple[int | None, str]:
    """Return the line and the name of the code that sets a mode, preferably permanently and at import."""
    later = {
        child
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.withitem)
        for child in ast.walk(node)
    }
    named = [
        (isinstance(node, ast.alias), node in later, names.index(name), line, name)
        for node in ast.walk(tree)
        for name, line in _named(node)
        if name in names
    ]
    *_, line, name = min(named, default=(None, ""))
    return line, name


def _named(node: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield the last part of a name, with its line; for an import, the imported name."""
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name) | ast.alias(name=name):
            yield name, node.lineno
