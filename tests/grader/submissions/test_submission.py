"""The state of a file, found without running it, and the digest of a submission."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from grader.course.stub import Stub
from grader.submissions.requests import MAX_CHARACTERS, message_of
from grader.submissions.submission import ExerciseFile, State, Submission

STUB = b'"""Double a number."""\n\n\ndef double(x):\n    raise NotImplementedError\n'
WORK = STUB.replace(b"raise NotImplementedError", b"return 2 * x")


@pytest.mark.parametrize(
    ("source", "state"),
    [
        (STUB, State.UNTOUCHED),
        (STUB.replace(b"\n", b"\r\n"), State.UNTOUCHED),
        (b"# My name\n" + STUB.replace(b'"""Double a number."""', b""), State.UNTOUCHED),
        (WORK, State.EDITED),
        (STUB + b"x = 1\n", State.EDITED),
        (b"", State.EMPTY),
        (b"\n  \n", State.EMPTY),
        (b"\xef\xbb\xbf", State.EMPTY),
        (b"def double(x):\n", State.INVALID),
        (b"\x89PNG\r\n", State.INVALID),
    ],
)
def test_the_state_of_a_file_depends_on_its_code(source: bytes, state: State) -> None:
    assert ExerciseFile(source).state(Stub(STUB)) is state


def test_a_file_without_a_source_is_missing_or_unreadable() -> None:
    assert ExerciseFile(None).state(Stub(STUB)) is State.MISSING
    assert ExerciseFile(None, "Too large.", Path("glu.py")).state(Stub(STUB)) is State.UNREADABLE


def test_invalid_python_has_the_line_and_the_reason() -> None:
    look = ExerciseFile(b"x = 1\ndef double(x)\n    return 2\n").look(Stub(STUB))
    assert (look.line, look.error, look.is_foreign) == (2, "expected ':'", False)


def test_a_file_that_is_the_stub_itself_is_work(tmp_path: Path) -> None:
    path, other = tmp_path / "double.py", tmp_path / "copy.py"
    for each in (path, other):
        each.write_bytes(STUB)
    assert ExerciseFile(STUB, path=path).state(Stub(STUB, working=path)) is State.EDITED
    assert ExerciseFile(STUB, path=other).state(Stub(STUB, working=path)) is State.UNTOUCHED
    other.unlink()
    assert ExerciseFile(STUB, path=other).state(Stub(STUB, working=path)) is State.UNTOUCHED


def test_a_file_is_parsed_once_for_each_stub(monkeypatch: pytest.MonkeyPatch) -> None:
    file = ExerciseFile(WORK)
    first = file.look(Stub(STUB))
    assert file.look(Stub(STUB)) is first
    assert file.with_note("Called Glu.py.").look(Stub(STUB)) is first
    assert file.look(Stub(WORK)).state is State.UNTOUCHED


def test_a_file_for_another_python_or_another_program_is_foreign() -> None:
    assert ExerciseFile(b"print 'hi'\n").is_foreign
    assert ExerciseFile(b"%PDF-1.4").is_foreign
    assert not ExerciseFile(b"def f(:\n").is_foreign
    assert not ExerciseFile(None).is_foreign


def test_notes_are_added_to_the_problem_and_flag_the_file() -> None:
    file = ExerciseFile(WORK, "It is called Glu.py.")
    assert file.with_note() is file
    noted = file.with_note("A.", "B.")
    assert (noted.problem, noted.seems_misnamed) == ("It is called Glu.py. A. B.", True)
    assert (noted.source, file.seems_misnamed) == (WORK, False)


def test_the_digest_of_a_submission_does_not_depend_on_order_or_line_ends() -> None:
    def digest(**files: bytes | None) -> str:
        return Submission("ada", {k: ExerciseFile(v) for k, v in files.items()}).info().digest

    both = digest(glu=WORK, relu=STUB)
    assert (
        both == digest(relu=STUB, glu=WORK) == digest(glu=WORK.replace(b"\n", b"\r\n"), relu=STUB)
    )
    different = [digest(glu=STUB, relu=WORK), digest(glu=WORK), digest(glu=WORK, relu=None)]
    assert len({both, *different}) == 4
    assert digest() == hashlib.sha256().hexdigest()


def test_a_message_is_one_line_of_limited_length() -> None:
    assert message_of("  look\n\tagain\x1b[2J ") == "look again\\x1b[2J"
    assert len(message_of("a" * 9 * MAX_CHARACTERS)) == MAX_CHARACTERS
    assert message_of("a" * MAX_CHARACTERS) == "a" * MAX_CHARACTERS
