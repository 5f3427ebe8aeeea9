"""`grade mark`: which file comes next, and what is saved about each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from grader.cli import mark
from grader.cli.marking import End
from grader.gradebook.facts import Remarks
from grader.serve.messages import FileForMarking, Marking, MarkMade
from grader.student.client import ChangedError, Server
from tests.grader.command import invoke

HERE = Server("https://grade.example.org", "secret")
GIVEN = Remarks(("d",), ("Line 1: x",))


def file_of(name: str) -> FileForMarking:
    return FileForMarking(
        file=name,
        student=name,
        name="",
        score=1.0,
        max_score=2.0,
        source="x = 1\n",
        keys=("k",),
        comments=(),
        marks=(),
        seen="seen",
    )


class Desk:
    """A server with files to mark, and the decisions of the person who marks them."""

    def __init__(self, *files: str) -> None:
        self.waiting = [file_of(name) for name in files]
        self.skipped: list[FileForMarking] = []
        self.others: tuple[str, ...] = ()
        self.decisions: list[Remarks | End] = []
        self.left: list[tuple[str, str, tuple[str, ...]]] = []
        self.changed: set[str] = set()

    def next(self, *_: object, after: str, **__: object) -> Marking:
        """Return the first file after `after`, or the first of all."""
        names = [file.file for file in self.waiting]
        later = self.waiting[names.index(after) + 1 :] if after in names else []
        shown = (*later, *self.waiting)
        return Marking(
            items=(),
            waiting=len(self.waiting),
            files=3,
            others=self.others,
            file=shown[0] if shown else None,
        )

    def keep(
        self,
        server: Server,
        exercise: str,
        file: FileForMarking,
        do: str,
        keys: Sequence[str],
        comments: Sequence[str],
    ) -> FileForMarking:
        assert (server, exercise) == (HERE, "glu")
        if file.file in self.changed:
            self.changed.remove(file.file)
            raise ChangedError("Nothing was saved: somebody else changed it.")
        self.left.append((file.file, do, tuple(keys)))
        if do == "next":
            self.waiting = [each for each in self.waiting if each.file != file.file]
        return msgspec.structs.replace(file, seen="later")


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    made = Desk("a", "b", "c")
    monkeypatch.setattr(mark, "next_to_mark", made.next)
    monkeypatch.setattr(mark, "keep_remarks", made.keep)
    monkeypatch.setattr(mark, "ask", lambda *_: made.decisions.pop(0))
    return made


def marked(capsys: pytest.CaptureFixture[str]) -> str:
    mark._mark_on_server(HERE, "glu", again=False, anonymous=False)
    return capsys.readouterr().out


def test_files_are_marked_until_none_is_left(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.decisions = [GIVEN, GIVEN, GIVEN]
    assert marked(capsys).endswith("3 marked, 0 of 3 left.\n")
    assert desk.left == [(name, "next", ("d",)) for name in "abc"]


def test_a_skipped_file_keeps_its_answers_and_is_not_shown_twice(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.decisions = [GIVEN, End.SKIP, GIVEN]
    assert marked(capsys).endswith("2 marked, 1 of 3 left.\n")
    # When it comes again, it is released without a question.
    skipped = [("b", "skip", ("k",)), ("c", "next", ("d",)), ("b", "stop", ("k",))]
    assert desk.left[1:] == skipped


def test_stopping_leaves_the_rest(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    desk.decisions = [GIVEN, End.STOP]
    assert marked(capsys).endswith("1 marked, 2 of 3 left.\n")
    assert desk.left[-1] == ("b", "stop", ("k",))


def test_files_held_by_others_are_reported(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    desk.waiting, desk.others = [], ("ben", "kim")
    mark._mark_on_server(HERE, "glu", again=False, anonymous=False)
    shown = capsys.readouterr()
    assert "Others have the files that are left: ben and kim." in shown.err
    assert "0 marked, 0 of 3 left." in shown.out


def test_a_file_that_was_changed_is_shown_again(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.waiting, desk.changed = desk.waiting[:1], {"a"}
    desk.decisions = [GIVEN, GIVEN]
    mark._mark_on_server(HERE, "glu", again=False, anonymous=False)
    shown = capsys.readouterr()
    assert "Nothing was saved: somebody else changed it." in shown.err
    assert shown.out.count("1 of 3 left  1 / 2") == 2
    assert "1 marked, 0 of 3 left." in shown.out
    assert desk.left == [("a", "next", ("d",))]


def test_earlier_marks_and_names_are_shown_if_known(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    (first, *_) = desk.waiting
    desk.waiting = [
        msgspec.structs.replace(
            first, name="Ada", marks=(MarkMade(-1.0, "Too \x1blong.", "ben", ""),)
        ),
        msgspec.structs.replace(first, file="anon-1", student=""),
    ]
    desk.decisions = [GIVEN, GIVEN]
    shown = marked(capsys)
    assert "\nAda  2 of 3 left  1 / 2\n" in shown and "\nanon-1  1 of 3 left" in shown
    assert "  Marked by ben: -1 point. Too" in shown and "\x1b" not in shown


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "Name RESULTS"),
        (("glu",), "Name RESULTS"),
        ((".", "glu", "gelu"), "Name RESULTS"),
        (("nowhere", "glu"), "does not exist"),
        (("--server", "x"), "name the EXERCISE"),
        (("--server", "x", "results", "glu"), "name the EXERCISE"),
        (("--server", "x", "glu", "--course", "/"), "--course does not go with --server"),
        (("--server", "x", "glu", "--author", "me"), "--author does not go with --server"),
        (("--server", "x", "glu", "--rubric", "a.toml"), "--rubric does not go with --server"),
    ],
)
def test_invalid_arguments_are_refused(tmp_path: Path, words: tuple[str, ...], told: str) -> None:
    done = invoke("mark", *words, cwd=tmp_path)
    assert (done.exit_code, told in " ".join(done.stderr.split())) == (2, True), done.stderr
