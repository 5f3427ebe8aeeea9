"""Our code beside a student's keeps its builtins and modules even if the student's code changes them."""

from __future__ import annotations

import builtins
import sys
from types import ModuleType
from typing import Any

import pytest

from grader.sandbox import private


@pytest.fixture
def ours(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return globals with their own builtins, like a module that runs beside a student's code."""
    monkeypatch.setattr(private, "OURS", list(private.OURS))
    monkeypatch.setattr(private, "LOADED", dict(private.LOADED))
    made: dict[str, Any] = {"__name__": "probe"}
    private.keep_builtins(made)
    return made


def test_a_builtin_replaced_later_does_not_reach_our_code(ours: dict[str, Any]) -> None:
    theirs: dict[str, Any] = {"__name__": "theirs"}
    for module in (ours, theirs):
        exec("def divided(a, b): return divmod(a, b)", module)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(builtins, "divmod", lambda a, b: "replaced")
        found = ours["divided"](7, 2), theirs["divided"](7, 2)
    # Code without its own builtins uses those of the process.
    assert found == ((3, 1), "replaced")


def test_no_two_modules_share_their_builtins(ours: dict[str, Any]) -> None:
    other: dict[str, Any] = {}
    private.keep_builtins(other)
    other["__builtins__"]["len"] = None
    assert ours["__builtins__"]["len"] is len
    assert any(each is other for each in private.OURS)


def test_an_import_returns_the_noted_module(
    ours: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    import json.decoder

    private.note_modules()
    private.keep_imports(ours, {})
    monkeypatch.setitem(sys.modules, "json", ModuleType("json"))
    monkeypatch.setitem(sys.modules, "json.decoder", ModuleType("json.decoder"))
    exec("import json\nfrom json import loads\nfrom json.decoder import JSONDecoder", ours)
    assert (ours["json"], ours["loads"]) == (json, json.loads)
    assert ours["JSONDecoder"] is json.decoder.JSONDecoder
    theirs: dict[str, Any] = {}
    exec("import json", theirs)
    assert theirs["json"] is not json


def test_a_module_of_our_own_comes_before_one_of_the_same_name(ours: dict[str, Any]) -> None:
    own = ModuleType("helper")
    private.keep_imports(ours, {"helper": own, "json": own})
    exec("import helper, json", ours)
    assert ours["helper"] is ours["json"] is own


def test_a_module_that_was_not_noted_is_imported_as_usual(
    ours: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(private.LOADED, "this_module", raising=False)
    late = ModuleType("this_module")
    late.answer = 42  # type: ignore[attr-defined]
    private.keep_imports(ours, {})
    monkeypatch.setitem(sys.modules, "this_module", late)
    exec("from this_module import answer", ours)
    assert ours["answer"] == 42
    with pytest.raises(ModuleNotFoundError):
        exec("import no_such_module", ours)


def test_names_of_our_own_modules_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private, "LOADED", {})
    monkeypatch.setattr(private, "OWN_NAMES", [])
    private.note_modules()
    assert "grader.sandbox.private" in private.OWN_NAMES
    assert "sys" in private.LOADED
    assert not [name for name in private.OWN_NAMES if name.partition(".")[0] != "grader"]
