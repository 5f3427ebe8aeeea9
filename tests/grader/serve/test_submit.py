"""`grade login`, `grade submit` and `grade watch --submit`: output, exit codes, and retries."""

from __future__ import annotations

import json
import shutil
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from grader.cli import main
from tests.grader.cli.test_watch import Terminal
from tests.grader.serve.conftest import PLAIN, SOLUTION, Served, marked

COUNTING = PLAIN / "solutions" / "text" / "word_count.py"
WRONG = PLAIN / "tests" / "wrong" / "text" / "word_count" / "characters.py"


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A student's folder without hidden suites. It is the current folder, with a separate configuration."""
    folder = tmp_path / "lab"
    left_out = shutil.ignore_patterns("hidden", "solutions", "wrong", "right")
    shutil.copytree(PLAIN, folder, ignore=left_out)
    shutil.copytree(
        PLAIN / "exercises", folder / "tests" / "stubs", ignore=shutil.ignore_patterns("*.toml")
    )
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return folder


def grade(*arguments: str, typed: str = "") -> Result:
    return CliRunner().invoke(main, arguments, input=typed)


def signed_in(served: Served, who: str = "ada") -> None:
    done = grade("login", f"http://127.0.0.1:{served.port}", typed=f"{served.tokens[who]}\n")
    assert done.exit_code == 0, done.output


def test_login_keeps_the_token_readable_only_by_the_user(
    served: Served, work: Path, tmp_path: Path
) -> None:
    signed_in(served)
    kept = tmp_path / "config" / "lab-bench" / "server.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert json.loads(kept.read_bytes())["token"] == served.tokens["ada"]
    done = grade("login", f"http://127.0.0.1:{served.port}", typed="0" * 32 + "\n")
    assert done.exit_code == 2 and "is not valid" in done.output
    assert json.loads(kept.read_bytes())["token"] == served.tokens["ada"], (
        "an invalid token is not kept"
    )


def test_submit_shows_the_verdict_of_all_tests(serving: Callable[..., Served], work: Path) -> None:
    served = serving().start()
    nothing = "grade: Nothing changed: name an exercise to hand it in anyway.\n"
    # The command line is valid, so its usage is not shown.
    done = grade("submit")
    assert (done.exit_code, done.stderr) == (2, "grade: Sign in first: grade login ADDRESS.\n")
    signed_in(served)
    done = grade("submit", "--status")
    assert (done.exit_code, done.stderr) == (2, "grade: You have handed in nothing yet.\n")
    done = grade("submit")
    assert (done.exit_code, done.stderr) == (2, nothing), "all files are still stubs"
    shutil.copy(WRONG, work / "exercises" / "text" / "word_count.py")
    (work / "exercises" / "text" / "greeting.py").write_bytes(SOLUTION)
    done = grade("submit")
    assert done.exit_code == 1, done.output
    assert grade("submit", "--status", "--fail-under", "0").exit_code == 0
    assert "word_count" in done.output and "greeting" in done.output
    # The points include hidden tests, which this folder lacks.
    assert "Total:" in done.output and "of 12.5" in done.output
    assert "public tests" not in done.output
    assert "then run `grade submit word_count`" in " ".join(done.output.split())
    assert "Full marks: 1 of 3 exercises" in grade("list").output
    shutil.copy(COUNTING, work / "exercises" / "text" / "word_count.py")
    done = grade("submit", "--json", "-")
    assert done.exit_code == 0
    result = json.loads(done.stdout)
    assert [each["name"] for each in result["exercises"]] == ["word_count"], "only the changed file"
    assert any(test["visibility"] == "hidden" for test in result["exercises"][0]["tests"])
    done = grade("submit")
    assert (done.exit_code, done.stderr) == (2, nothing), "nothing is new"
    shutil.rmtree(work / ".grade")
    done = grade("submit", "--status")
    assert done.exit_code == 0 and "grade: Handed in earlier: greeting 2.5 / 2.5." in done.stderr
    listed = grade("list").output
    assert "full marks" in listed and "10 / 10" in listed, "the verdicts are kept again"


def test_login_follows_no_redirect(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grader.student.client.PAUSES_SECONDS", (0.01,))
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def answer() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:  # closed at the end of the test
                    return
                with client:
                    asked.append(client.recv(65536))
                    place = f"http://127.0.0.1:{port}/elsewhere"
                    client.sendall(
                        f"HTTP/1.1 302 Found\r\nLocation: {place}\r\nContent-Length: 0\r\n\r\n".encode()
                    )

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        done = grade("login", f"http://127.0.0.1:{port}", typed="secret-token\n")
    assert done.exit_code == 3 and "answers 302" in done.output
    assert len(asked) == 1


@pytest.mark.thorough
def test_submit_waits_for_a_restarting_server(
    serving: Callable[..., Served], work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grader.student.client.PAUSES_SECONDS", (0.2,) * 600)
    served = serving().start()
    signed_in(served)
    served.pause()
    (work / "exercises" / "text" / "greeting.py").write_bytes(marked(3))

    def restart() -> None:
        time.sleep(2)
        served.kill()
        served.start()
        served.resume()

    with ThreadPoolExecutor() as threads:
        restarted = threads.submit(restart)
        done = grade("submit", "greeting")
        restarted.result()
    assert done.exit_code == 0, done.output


def test_a_key_of_grade_watch_submits_and_shows_the_verdict(served: Served, work: Path) -> None:
    assert grade("watch", "--submit").exit_code == 2, "not signed in"
    signed_in(served, "eve")
    assert grade("watch", "--submit", "--errors").exit_code == 2
    done = grade("watch", "--submit")
    assert done.exit_code == 2 and "needs a terminal" in done.output
    shutil.copy(WRONG, work / "exercises" / "text" / "word_count.py")
    running = Terminal(work, "word_count", "--submit")
    try:
        running.until("s submit.*judged in")
        running.press("s")
        shown = running.until("points from the server")
        assert "Full marks: 0 of 3 exercises" in shown and "public tests" not in shown
        shutil.copy(COUNTING, work / "exercises" / "text" / "word_count.py")
        assert "Press s to hand it in." in running.until("judged in")
        running.press("s")
        shown = running.until("10 of 10 points from the server")
        assert "Full marks: 1 of 3 exercises" in shown and "Full marks. Press n" in shown
        running.press("q")
        assert running.ended() == 0
    finally:
        running.close()
