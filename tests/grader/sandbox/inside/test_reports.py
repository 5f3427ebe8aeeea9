"""Which events are reported, judged by the functions on the stack and their instructions."""

from __future__ import annotations

import dis
import json
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, SimpleNamespace
from typing import Any, cast

import pytest

from grader.sandbox.inside import reports
from grader.sandbox.wire.messages import MAX_REPORT, PROBE_FILE

STUDENT = ""


def frame(*names: str) -> Any:
    """Return the frame of a function that uses these names."""
    return SimpleNamespace(f_code=SimpleNamespace(co_names=names))


def code(text: str) -> CodeType:
    return compile(text, "<text>", "eval")


def is_innocent(
    action: str, *path: str, leader: str = STUDENT, first: Any = None, of: object = None
) -> bool:
    names = ("exec", "eval", action.rpartition(".")[2])
    return reports._is_innocent(action, (of,), list(path), leader, first or frame(*names))


# --- the cause of an event --------------------------------------------------------------------------


def test_events_of_the_students_own_lines_are_reported() -> None:
    assert not is_innocent("tb_frame")
    assert not is_innocent("exec")
    # A function that returns the frame counts like the line that calls it.
    assert not is_innocent("tb_frame", "traceback.py:walk_tb")
    assert is_innocent("tb_frame", "traceback.py:walk_tb", "traceback.py:print_exc")


@pytest.mark.parametrize(
    "place",
    [
        "traceback.py:extract",
        "warnings.py:warn",
        "dataclasses.py:_process_class",
        "logging/__init__.py:findCaller",
        "torch/nn/parameter.py:materialize",
    ],
)
def test_a_library_that_keeps_a_frame_to_itself_is_not_reported(place: str) -> None:
    assert is_innocent("tb_frame", place)
    assert not is_innocent("tb_frame", f"mine/{place}")


@pytest.mark.parametrize(
    "place",
    ["string.py:get_field", "operator.py:attrgetter", "traceback.py:walk_stack", "<string>:f"],
)
def test_a_library_that_returns_a_frame_is_reported(place: str) -> None:
    assert not is_innocent("tb_frame", place)


def test_only_listed_functions_of_the_grader_may_read_frames() -> None:
    assert is_innocent("tb_frame", leader="grader/sandbox/inside/guard.py:_frames")
    assert not is_innocent("tb_frame", leader="grader/sandbox/inside/guard.py:other")
    assert not is_innocent("tb_frame", leader="grader/sandbox/inside/worker.py:_call")


def test_a_probe_may_run_code_but_not_list_objects() -> None:
    probe = f"{PROBE_FILE}:told"
    assert is_innocent("exec", leader=probe)
    assert not is_innocent("exec", leader=probe, first=frame("map"))
    assert not is_innocent("gc.get_objects", leader=probe)


def test_a_function_does_not_excuse_events_of_a_callable_it_was_given() -> None:
    assert is_innocent("exec", "dataclasses.py:_create_fn")
    assert not is_innocent("exec", "dataclasses.py:_create_fn", first=frame("map", "list"))
    assert not reports._is_called("gc.get_objects", None)
    # Attribute reads are not checked by name.
    assert reports._is_called("tb_frame", None)


def test_an_import_may_run_only_files_of_libraries() -> None:
    bootstrap = "<frozen importlib._bootstrap>:_call_with_frames_removed"
    # The import system gets `exec` as an argument and calls it by another name.
    given = frame("f")
    assert is_innocent("exec", bootstrap, "torch/optim/__init__.py:<module>", first=given)
    assert not is_innocent("exec", bootstrap, "</tmp/grade-x/mine.py>:<module>", first=given)
    assert not is_innocent("exec", bootstrap, "<string>", first=given)
    assert not is_innocent("exec", "<frozen importlib._bootstrap>:_load", first=given)
    # A finder defined by the student.
    assert not is_innocent("gc.get_referents", bootstrap, first=frame("find_spec"))


def test_strings_are_run_only_by_functions_that_generated_them() -> None:
    assert is_innocent("exec", "collections/__init__.py:namedtuple")
    assert not is_innocent("exec", "collections/__init__.py:other")
    assert is_innocent("exec", "typing.py:_evaluate", of=code("dict[str, a.B] | None"))
    for text in ("print()", "a.__globals__", "[x for x in y]"):
        assert not is_innocent("exec", "typing.py:_evaluate", of=code(text)), text


def test_timeit_may_call_a_function_but_not_run_a_string() -> None:
    of_callable, of_text = (
        compile(f"def inner(_it, _timer):\n    {statement}\n", "<timeit-src>", "exec")
        for statement in ("pass", "print()")
    )
    assert is_innocent("exec", "timeit.py:__init__", of=of_callable)
    assert not is_innocent("exec", "timeit.py:__init__", of=of_text)


def test_a_compiler_is_trusted_if_another_part_of_it_called_it() -> None:
    inner, outer = "torch/_dynamo/guards.py:build", "torch/_dynamo/convert_frame.py:compile"
    assert is_innocent("__closure__", inner, outer)
    assert is_innocent("__closure__", inner, leader=f"{PROBE_FILE}:told")
    assert not is_innocent("__closure__", inner)
    assert not is_innocent("__closure__", inner, "string.py:get_field")
    # This function would read any attribute by name.
    assert not is_innocent("__closure__", "torch/_dynamo/source.py:get_attr", outer)
    assert is_innocent("torch.set_eval_frame", inner)
    assert not is_innocent("torch.set_eval_frame", "torch/nn/modules/module.py:f")
    assert is_innocent("sys._getframe", "numpy/lib.py:f"), "reads from the frame are reported"


def test_a_library_may_read_a_source_to_show_a_line() -> None:
    readers = ["tokenize.py:open", "linecache.py:updatecache"]
    assert reports._is_for_errors([*readers, "traceback.py:_format"])
    assert reports._is_for_errors([*readers, "torch/_dynamo/x.py:f"])
    assert not reports._is_for_errors(readers)
    assert not reports._is_for_errors(["shutil.py:copyfile"])


# --- names written in a function --------------------------------------------------------------------


def instructions(text: str, operation: str) -> Iterator[tuple[CodeType, int]]:
    """Yield the code of an expression and the offset of each such operation."""
    space: dict[str, Any] = {}
    exec(f"def f(x, given=None):\n    {text}\n", space)
    of = space["f"].__code__
    for each in dis.get_instructions(of):
        if each.opname.startswith(operation):
            yield of, each.offset


def is_written(name: str, text: str, operation: str) -> bool:
    (*_, (of, at)) = instructions(text, operation)
    return reports._is_written(name, of, at)


def test_a_function_is_recognized_by_the_attribute_it_names() -> None:
    assert is_written("tb_frame", "return x.tb_frame", "LOAD_ATTR")
    assert not is_written("tb_frame", "return x.tb_next", "LOAD_ATTR")
    assert is_written("tb_frame", "return getattr(x, 'tb_frame')", "CALL")
    assert is_written("tb_frame", "return getattr(x, 'tb_frame', None)", "CALL")
    assert not is_written("tb_frame", "return getattr(x, given)", "CALL")
    assert not is_written("tb_frame", "return list(map(given, x))", "CALL")
    far = "; ".join(f"given({number})" for number in range(8))
    assert not is_written("tb_frame", f"y = 'tb_frame'; {far}; return given(x)", "CALL")
    assert not reports._is_written("tb_frame", code("x.tb_frame"), -1), "the code has not begun"


def test_an_attribute_after_many_others_is_found() -> None:
    others = "; ".join(f"x.a{number}" for number in range(300))
    assert is_written("tb_frame", f"{others}; return x.tb_frame", "LOAD_ATTR")
    # The 301st name: the low byte of its number is that of a44.
    assert not is_written("a44", f"{others}; return x.tb_frame", "LOAD_ATTR")


def test_code_that_sets_an_attribute_by_name_is_recognized() -> None:
    (of, at), *_ = instructions("x.__code__ = given", "STORE_ATTR")
    here = cast(Any, SimpleNamespace(f_code=of, f_lasti=at))
    assert reports._does_itself("__code__", here)
    assert not reports._does_itself("__defaults__", here)
    # Other events have no attribute name.
    assert reports._does_itself("gc.get_objects", here)


def test_only_names_are_accepted_as_a_type() -> None:
    for text in ("int", "dict[str, a.B] | None", "Literal[1, 'a(b)']"):
        assert reports._names_a_type(code(text)), text
    for text in ("f()", "a.__class__", "lambda: 1", "(x := 1)"):
        assert not reports._names_a_type(code(text)), text
    assert not reports._names_a_type("int")


def test_places_are_named_relative_to_their_library() -> None:
    place = reports._places()
    assert place(reports.__file__) == "grader/sandbox/inside/reports.py"
    assert place(json.__file__) == "json/__init__.py"
    assert place(pytest.__file__) == "pytest/__init__.py"
    assert place("<string>") == "<string>"
    strange = place(str(Path("/nowhere/mine.py")))
    assert strange == "</nowhere/mine.py>" and reports._STRANGE.match(strange)


# --- reports ----------------------------------------------------------------------------------------


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, judges = socket.socketpair()
    with ours, judges:
        yield ours, judges


def test_an_event_is_reported_once(ends: tuple[socket.socket, socket.socket]) -> None:
    tell, count = reports.reporter(ends[0])
    for _ in range(3):
        tell("exec", 7, 'a "quoted"\nplace')
    tell("exec", 8, "x" * MAX_REPORT)
    lines = ends[1].recv(2 * MAX_REPORT).decode().splitlines()
    assert [json.loads(line)[:2] for line in lines] == [["exec", 7], ["exec", 8]]
    assert json.loads(lines[0])[2] == 'a "quoted"\nplace'
    assert count() == 2 and max(map(len, lines)) < MAX_REPORT


@pytest.mark.skipif(sys.platform == "win32", reason="sockets are not file descriptors on Windows")
@pytest.mark.parametrize("way", ["hung up", "by a file", "by a socket"])
def test_a_sandbox_that_cannot_report_ends(
    way: str, ends: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(status: int) -> None:
        raise SystemExit(status)

    monkeypatch.setattr(reports, "_exit", ended)
    tell, count = reports.reporter(ends[0])
    sending, hearing = socket.socketpair()
    with Path(os.devnull).open("wb") as file, sending, hearing:
        if way == "hung up":
            ends[1].close()
        else:
            other = file if way == "by a file" else sending
            os.dup2(other.fileno(), ends[0].fileno())
        with pytest.raises(SystemExit, match="71"):
            tell("exec", 1, "")
    assert count() == 0
