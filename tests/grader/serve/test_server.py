"""The effects of settings before a server opens: judges, valid sessions, and the folder of backups."""

from __future__ import annotations

import datetime
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from grader.course.manifest import load_course
from grader.gradebook import Gradebook
from grader.gradebook.verdicts import Questions
from grader.judge.assignment import GradingOptions
from grader.judge.pool import LocalPool
from grader.results import StudentInfo
from grader.serve.backups import BackupPlan
from grader.serve.server import Settings, _desk, _judges, _origins, _views

COURSE = load_course(Path(__file__).parents[1] / "courses" / "plain")
OPTIONS = GradingOptions()


def settings(results: Path = Path("results"), **changes: Any) -> Settings:
    students = (StudentInfo(id="ada", name="Ada"),)
    given: dict[str, Any] = {"course": COURSE, "results": results, "students": students}
    return Settings(**given, options=OPTIONS, judges=1, **changes)


def kept(results: Path) -> str:
    with Gradebook.open(results) as book:
        return book.facts.backups


def test_the_folder_of_backups_is_kept_in_the_gradebook(tmp_path: Path) -> None:
    results, questions = tmp_path / "results", Questions(COURSE, OPTIONS)
    folders = (tmp_path / "one", tmp_path / "two")
    for folder in folders:
        plan = BackupPlan(folder, datetime.timedelta(days=1), 3)
        with _desk(settings(results, backups=plan), questions) as desk:
            desk.open()
        assert kept(results) == str(folder)
    # A server without backups keeps the folder, since the old backups still exist.
    with _desk(settings(results), questions), _views(settings(results)) as views:
        assert views.book.facts.backups == str(folders[1])


def test_sessions_are_valid_only_for_the_university() -> None:
    assert _origins(settings()) == set()
    sign_in = SimpleNamespace(sign_in=SimpleNamespace(origin="https://id.example.org"))
    assert _origins(settings(university=cast(Any, sign_in))) == {"https://id.example.org"}


def test_judges_are_local_unless_there_is_a_scheduler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert isinstance(_judges(settings()), LocalPool)
    cluster = SimpleNamespace(ClusterJudges=lambda course, scheduler, options: scheduler)
    monkeypatch.setitem(sys.modules, "grader.gradebook.cluster", cast(Any, cluster))
    judges: object = _judges(settings(scheduler="tcp://head:8786"))
    assert judges == "tcp://head:8786"
