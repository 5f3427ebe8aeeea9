"""Backups by a running server: when one is due, where staff see it, and what a failure leaves."""

from __future__ import annotations

import datetime
import html
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from prometheus_client import CollectorRegistry

from grader.cli import main
from grader.gradebook import Gradebook
from grader.gradebook.backup import Backup, backups_in, make_backup
from grader.results import StudentInfo
from grader.serve import backups
from grader.serve.backups import BackupPlan, Backups, backup_plan
from tests.grader.serve.conftest import PATIENCE_SECONDS, SOLUTION, Served

NOW = datetime.datetime(2026, 11, 30, 2, 10, tzinfo=datetime.UTC)
DAY = datetime.timedelta(days=1)
METRIC = "lab_bench_last_backup_timestamp_seconds"


@pytest.fixture
def results(tmp_path: Path) -> Iterator[Path]:
    """A results folder whose gradebook is open for writing, as a server has it."""
    with Gradebook.open_to_write(tmp_path / "results") as book:
        book.keep_student(StudentInfo(id="ada"))
        yield tmp_path / "results"


def until(question: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not question():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def made(results: Path, plan: BackupPlan | None) -> tuple[Backups, CollectorRegistry]:
    registry = CollectorRegistry()
    return Backups(results, plan, registry), registry


def test_a_backup_is_due_at_once_and_then_after_each_interval(
    results: Path, tmp_path: Path
) -> None:
    thread, registry = made(results, BackupPlan(tmp_path, DAY, 2))
    assert thread.seconds_until_due(NOW) <= 0
    assert registry.get_sample_value(METRIC) == 0
    thread.newest = Backup(tmp_path, NOW, "")
    assert thread.seconds_until_due(NOW + DAY / 4) == 18 * 3600
    assert thread.seconds_until_due(NOW + DAY) <= 0
    assert thread.seconds_until_due(NOW + 30 * DAY) <= 0
    # The clock was set back by a year. The next backup must not be a year away.
    assert thread.seconds_until_due(NOW - 365 * DAY) == DAY.total_seconds()
    assert registry.get_sample_value(METRIC) == NOW.timestamp()


def test_backups_from_before_the_start_count_and_the_oldest_is_deleted(
    results: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "backups"
    now = datetime.datetime.now(datetime.UTC)
    old = [make_backup(results, folder, now - n * DAY) for n in (4, 3, 2)]
    (folder / ".01234567-x.part").mkdir()
    thread, registry = made(results, BackupPlan(folder, DAY, 2))
    thread.start()
    until(lambda: thread.newest is not None and thread.newest not in old)
    until(lambda: len(backups_in(folder)) == 2)
    thread.close()
    assert backups_in(folder) == [old[2], thread.newest]
    assert thread.failure == "" and (registry.get_sample_value(METRIC) or 0) > NOW.timestamp()
    # A restart makes no backup, since none is due.
    again, _ = made(results, BackupPlan(folder, DAY, 2))
    again.start()
    until(lambda: again.newest is not None)
    again.close()
    assert again.newest == thread.newest and len(backups_in(folder)) == 2


def test_a_failed_backup_deletes_nothing_and_is_retried(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "backups"
    old = make_backup(results, folder, NOW - 9 * DAY)
    monkeypatch.setattr(backups, "_PAUSES_SECONDS", (0.01,))
    kept = make_backup
    failures: list[OSError] = []

    def full(*arguments: object) -> Backup:
        if len(failures) < 3:
            failures.append(OSError(28, "No space left on device"))
            raise failures[-1]
        return kept(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(backups, "make_backup", full)
    thread, registry = made(results, BackupPlan(folder, DAY, 1))
    thread.start()
    until(lambda: thread.failure)
    assert backups_in(folder) == [old] and "No space left" in thread.failure
    assert registry.get_sample_value(METRIC) == old.made_at.timestamp()
    until(lambda: len(failures) == 3 and not thread.failure)
    until(lambda: len(backups_in(folder)) == 1)
    thread.close()
    assert backups_in(folder) == [thread.newest] != [old]
    assert [r.levelname for r in caplog.records if r.getMessage() == "no backup"] == ["ERROR"] * 3


def test_closing_ends_a_backup_in_progress(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backups, "_STEP_SECONDS", float(PATIENCE_SECONDS))
    monkeypatch.setattr(backups, "_JOIN_SECONDS", float(PATIENCE_SECONDS))
    thread, _ = made(results, BackupPlan(tmp_path / "backups", DAY, 1))
    thread.start()
    until(lambda: [*(tmp_path / "backups").glob(".*.part")])
    thread.close()
    assert [*(tmp_path / "backups").iterdir()] == [] and thread.failure == ""


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--backups", "b", "--backup-every", "2 moons"], "'2 moons'"),
        (["--backups", "b", "--backup-every", "30 seconds"], "1 minute"),
        (["--backup-every", "1 hour"], "--backups FOLDER"),
        (["--keep-backups", "3"], "--backups FOLDER"),
        (["--backups", "class.csv/b"], "cannot be written"),
        (["--backups", "results/backups"], "Name a folder outside"),
        (["--backups", "results"], "Name a folder outside"),
        (["--backups", "b", "--keep-backups", "0"], "0 is not in the range"),
    ],
)
def test_invalid_options_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "class.csv").write_text("id,name\nada,Ada\n", encoding="utf-8")
    course = str(Path(__file__).parents[1] / "courses" / "plain")
    command = ["serve", course, "-o", "results", "--roster", "class.csv", *options]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 2 and told in done.output, done.output


def test_the_folder_is_created(tmp_path: Path) -> None:
    results = tmp_path / "results"
    plan = backup_plan(results, tmp_path / "a" / "b", "6 hours", 3)
    assert plan == BackupPlan(tmp_path / "a" / "b", datetime.timedelta(hours=6), 3)
    assert (tmp_path / "a" / "b").is_dir()
    assert backup_plan(results, None, "1 day", 14) is None


def test_a_server_makes_backups_and_continues_after_a_kill(
    serving: Callable[..., Served], tmp_path: Path
) -> None:
    folder = tmp_path / "backups"
    served = serving(policy='timezone = "UTC"\nkeep = "2 years"\n').start("--backups", str(folder))
    until(lambda: backups_in(folder))
    page = class_page(served, "staff")
    assert "Last backup" in page and ", checked." in page
    # Only staff who run the server see it.
    assert "Last backup" not in class_page(served, "observer") + class_page(served, "assistant")
    (line,) = [
        line
        for line in served.ask("GET", "/metrics", "observer").body.decode().splitlines()
        if line.startswith(METRIC)
    ]
    (first,) = backups_in(folder)
    assert float(line.split()[1]) == first.made_at.timestamp()
    served.judged("ada", served.hand_in("ada", {"greeting.py": SOLUTION}).json["id"])
    served.kill()
    # Date the backup to yesterday, so that one is due.
    yesterday = first.made_at - DAY
    first = Backup(
        first.path.rename(folder / f"{yesterday:%Y-%m-%dT%H%M%SZ}"), yesterday, first.secret
    )
    served.start("--backups", str(folder), "--keep-backups", "1")
    until(lambda: backups_in(folder) and backups_in(folder)[-1] != first)
    until(lambda: len(backups_in(folder)) == 1)
    assert served.stop() == 0
    (last,) = backups_in(folder)
    with Gradebook.open(last.path) as book:
        entry = book.entry_of("ada")
        assert entry is not None and entry.result.score == 2.5


# `grade` with a backup that stalls after its first step.
STALLED = """
import time
from grader.cli import main
from grader.serve import backups
backups._STEP_SECONDS = 1e6
backups._JOIN_SECONDS = 0.1
main()
"""


@pytest.mark.thorough
def test_submissions_do_not_wait_for_a_backup_and_a_kill_during_it_is_harmless(
    serving: Callable[..., Served], tmp_path: Path
) -> None:
    folder = tmp_path / "backups"
    served = serving().start("--backups", str(folder))
    until(lambda: backups_in(folder))
    served.stop()
    (first,) = backups_in(folder)
    old = first.made_at - DAY
    first = Backup(first.path.rename(folder / f"{old:%Y-%m-%dT%H%M%SZ}"), old, first.secret)
    served.start("--backups", str(folder), program=("-c", STALLED))
    until(lambda: [*folder.glob(".*.part/gradebook.sqlite")])
    id_ = served.hand_in("ada", {"greeting.py": SOLUTION}).json["id"]
    assert served.judged("ada", id_)["state"] == "done"
    served.kill()
    (draft,) = folder.glob(".*.part")
    assert backups_in(folder) == [first]
    served.start("--backups", str(folder))
    until(lambda: len(backups_in(folder)) == 2)
    assert not draft.exists()
    with Gradebook.open(backups_in(folder)[-1].path) as book:
        assert book.entry_of("ada") is not None and len(book.attempt_counts()) == 1


def class_page(served: Served, who: str) -> str:
    answer = served.ask("GET", "/class", who)
    assert answer.status == 200
    return html.unescape(answer.body.decode())
