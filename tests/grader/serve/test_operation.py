"""Operating a server: kills, signals, a full disk, clocks, logs, backups, tokens, and releases."""

from __future__ import annotations

import contextlib
import errno
import http.client
import io
import json
import os
import random
import resource
import shutil
import sqlite3
import subprocess
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import CliRunner

from grader.authoring.handout import zipped_release
from grader.authoring.release import Tier, release
from grader.cli import main
from grader.course.manifest import load_course
from grader.errors import GraderError
from grader.gradebook import Gradebook
from grader.gradebook.database import FILE
from grader.serve.app import _refusal
from tests.grader.serve.conftest import (
    PATIENCE_SECONDS,
    PLAIN,
    SOLUTION,
    STUDENTS,
    Served,
    marked,
    sql,
)

pytestmark = pytest.mark.thorough

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "serve"
# A right answer, a wrong one, and one with an error, so that the outcomes differ.
ANSWERS = {
    "ada": SOLUTION,
    "bob": b"def greeting(name):\n    return name\n",
    "eve": b"def greeting(name):\n    raise ValueError(name)\n",
}
STUB = (PLAIN / "exercises" / "text" / "greeting.py").read_bytes() + b"x = 1\n"
Serving = Callable[..., Served]


class Client(threading.Thread):
    """A student's program, which submits files one by one and repeats each until it is answered."""

    def __init__(self, served: Served, who: str, numbers: range) -> None:
        super().__init__()
        self.served, self.who, self.numbers = served, who, numbers
        self.answer = ANSWERS[who]
        self.accepted: dict[int, str] = {}

    def run(self) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        for number in self.numbers:
            while number not in self.accepted and time.monotonic() < deadline:
                try:
                    files = {"greeting.py": self.answer + f"\n# {number}\n".encode()}
                    answer = self.served.hand_in(self.who, files, f"client-key-{number}")
                except (OSError, http.client.HTTPException):
                    time.sleep(0.05)  # the server is down, or the answer was cut off
                    continue
                assert answer.status == 202, answer
                self.accepted[number] = answer.json["id"]


def outcomes(judged: Any) -> list[str]:
    """The outcomes of the tests of a submission with one exercise."""
    (exercise,) = judged["result"]["exercises"]
    return [test["outcome"] for test in exercise["tests"]]


def kill_something(served: Served, chance: random.Random) -> None:
    """Kill the server, a judge or a fork server.

    Sandboxes are left alone: if one ends, this counts as the student's fault and costs the test an error.
    """
    judging = [
        process
        for process in psutil.Process(served.pid).children(recursive=True)
        if not is_sandbox(process)
    ]
    if judging and chance.random() < 0.6:
        with contextlib.suppress(psutil.NoSuchProcess):
            chance.choice(judging).kill()
    else:
        served.kill()
        served.start("--jobs", "2")


def is_sandbox(process: psutil.Process) -> bool:
    """Whether a fork server forked this process. A bwrap as parent only starts the fork server."""
    try:
        parent = process.parent()
        words = parent.cmdline() if parent else []
        return "grader.sandbox.forkserver" in words and not words[0].endswith("bwrap")
    except psutil.NoSuchProcess:
        return True


def test_each_accepted_submission_gets_its_one_verdict_despite_kills(
    serving: Serving,
) -> None:
    served = serving(policy='attempts = "best"\n').start("--jobs", "2")
    calm = {
        who: outcomes(served.judged(who, served.hand_in(who, {"greeting.py": answer}).json["id"]))
        for who, answer in ANSWERS.items()
    }
    assert len(set(map(tuple, calm.values()))) == len(STUDENTS)
    chance = random.Random(1)
    clients = [
        Client(served, who, range(100 * place, 100 * place + 8))
        for place, who in enumerate(STUDENTS)
    ]
    for client in clients:
        client.start()
    for _ in range(12):
        time.sleep(chance.uniform(0.05, 1.0))
        kill_something(served, chance)
    for client in clients:
        client.join()
    for client in clients:
        assert set(client.accepted) == set(client.numbers)
        assert len(set(client.accepted.values())) == len(client.numbers)
        for number, id_ in client.accepted.items():
            judged = served.judged(client.who, id_)
            assert judged["result"]["submission"]["name"] == client.who, number
            assert outcomes(judged) == calm[client.who], number
    rows = sql(
        served,
        "SELECT submissions.student, attempts.student, count(*) FROM submissions"
        " JOIN attempts ON attempts.id = attempt JOIN grades USING (attempt) GROUP BY submissions.number",
    )
    assert len(rows) == sum(len(client.numbers) + 1 for client in clients)
    assert all(row[0] == row[1] and row[2] == 1 for row in rows)
    # The gradebook has each file with its own student, as it was sent.
    with Gradebook.open(served.results) as book:
        for attempt in book.tables.attempts():
            source = book.files_of(attempt.id)["greeting"].source
            assert source is not None and source.startswith(ANSWERS[attempt.student])
    times = [time for (time,) in sql(served, "SELECT accepted_at FROM submissions ORDER BY number")]
    assert times == sorted(times)


def test_killing_judges_and_fork_servers_loses_no_verdict(serving: Serving) -> None:
    served = serving().start()
    ids = [served.hand_in("ada", {"greeting.py": marked(0)}).json["id"]]
    served.judged("ada", ids[0])
    for number in range(1, 5):
        ids.append(served.hand_in("ada", {"greeting.py": marked(number)}).json["id"])
        for child in psutil.Process(served.pid).children(recursive=True):
            try:
                child.kill()
            except psutil.NoSuchProcess:
                continue
        assert served.judged("ada", ids[-1])["result"]["exercises"][0]["status"] == "passed"
    assert served.ask("GET", "/healthz").status == 200


def test_sigterm_stops_the_server_and_waiting_files_are_judged_later(
    serving: Serving,
) -> None:
    # A process of its own, as a person starts it, not a fork.
    served = serving().start(program=("-m", "grader.cli"))
    slow = b"import time\n\ndef greeting(name):\n    time.sleep(60)\n"
    first = served.hand_in("ada", {"greeting.py": slow}).json["id"]
    second = served.hand_in("bob", {"greeting.py": SOLUTION}).json["id"]
    deadline = time.monotonic() + PATIENCE_SECONDS
    while served.ask("GET", f"/api/submissions/{first}", "ada").json["state"] == "waiting":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert served.stop() == 0
    states = dict(sql(served, "SELECT student, state FROM jobs JOIN submissions USING (attempt)"))
    assert states["bob"] in ("waiting", "done") and states["ada"] in ("waiting", "done")
    assert "Traceback" not in served.log.read_text()
    served.start()
    assert served.judged("bob", second)["result"]["score"] == 2.5
    assert served.judged("ada", first)["result"]["exercises"][0]["status"] == "timeout"


def test_a_second_server_or_grading_on_the_folder_is_refused(serving: Serving) -> None:
    served = serving().start()
    with pytest.raises(AssertionError, match="Another grading writes"):
        Served.start(_other(served))
    roster = str(served.folder / "class.csv")
    folder = str(served.folder / "handed")
    Path(folder, "ada").mkdir(parents=True)
    Path(folder, "ada", "greeting.py").write_bytes(SOLUTION)
    command = ["batch", folder, "-o", str(served.results), "--roster", roster]
    done = CliRunner().invoke(main, [*command, "--course", str(PLAIN)])
    assert done.exit_code == 3 and "Another grading writes" in done.output
    # Reading is still possible.
    done = CliRunner().invoke(main, ["export", str(served.results), "--format", "csv"])
    assert done.exit_code == 0, done.output


def _other(served: Served) -> Served:
    other = Served.__new__(Served)
    other.__dict__.update(served.__dict__, port=0, _process=None)
    return other


def test_a_full_disk_refuses_submissions_and_loses_none(serving: Serving) -> None:
    served = serving()
    served.start()
    before = served.hand_in("ada", {"greeting.py": marked(0)}).json["id"]
    served.judged("ada", before)
    assert served.stop() == 0
    # Limit the size of files, which fails like a quota.
    served.start(limits={resource.RLIMIT_FSIZE: 600_000})
    accepted, noise = [before], random.Random(2)
    for number in range(20):
        # Random comments, so that compression saves little.
        comment = "".join(noise.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=150_000))
        files = {"greeting.py": marked(number) + f"# {comment}\n".encode()}
        answer = served.hand_in("ada", files)
        if answer.status != 202:
            break
        accepted.append(answer.json["id"])
    assert answer.status == 507 and answer.headers["Retry-After"]
    (said,) = [line for line in served.log.read_text().splitlines() if '"status": 507, "f' in line]
    assert len(said) < 500, "the log is on the same disk, so its lines are short"
    assert served.ask("GET", f"/api/submissions/{before}", "ada").json["state"] == "done"
    served.kill()
    served.start()
    count = sql(served, "SELECT count(*) FROM submissions")
    assert count == [(len(accepted),)]
    last = served.judged("ada", accepted[-1])
    assert last["result"]["score"] == 2.5
    assert served.hand_in("ada", files).status == 202


def test_a_submission_to_a_busy_gradebook_can_be_retried(
    serving: Serving,
) -> None:
    served = serving().start()
    files, key = {"greeting.py": marked(0)}, "key-of-ada"
    with contextlib.closing(sqlite3.connect(served.results / FILE)) as other:
        other.execute("BEGIN IMMEDIATE")
        answer = served.hand_in("ada", files, key)
        assert answer.status == 503 and answer.headers["Retry-After"] == "5", answer
        assert served.ask("GET", "/healthz").status == 200
    handed = served.hand_in("ada", files, key)
    assert handed.status == 202
    assert served.judged("ada", handed.json["id"])["result"]["score"] == 2.5
    assert sql(served, "SELECT count(*) FROM submissions") == [(1,)]
    assert "Traceback" not in served.log.read_text()


@pytest.mark.parametrize(
    "error",
    [
        BlockingIOError(errno.EAGAIN, "no process is left"),
        OSError(errno.ENFILE, "no open file is left"),
        OSError(errno.ENOMEM, "no memory is left"),
        MemoryError(),
    ],
    ids=repr,
)
def test_a_lack_of_resources_gives_503(error: Exception) -> None:
    assert (_refusal(error).status_code, _refusal(ValueError()).status_code) == (503, 500)
    # The same if a process for the parser could not be started.
    assert _refusal(_caused(error)).status_code == 503


def _caused(error: Exception) -> GraderError:
    caused = GraderError("No process could be started to parse a file.")
    caused.__cause__ = error
    return caused


def test_a_full_disk_at_the_start_is_reported(serving: Serving) -> None:
    served = serving()
    with pytest.raises(AssertionError):
        served.start(limits={resource.RLIMIT_FSIZE: 2000})
    log = served.log.read_text()
    assert served.stop() == 3
    assert "Nothing can be written" in log and "Traceback" not in log, log


def test_a_clock_set_back_harms_nobody_and_staff_is_told(
    serving: Serving,
) -> None:
    served = serving(policy='cool_down = "10 minutes"\nmost_submissions = 1\n').start()
    first = served.hand_in("ada", {"greeting.py": marked(0)}).json["id"]
    served.judged("ada", first)
    assert served.stop() == 0
    # As if the clock had been an hour ahead until now.
    with sqlite3.connect(served.results / "gradebook.sqlite") as connection:
        connection.execute("UPDATE submissions SET accepted_at = accepted_at + 3600")
        connection.execute(
            "UPDATE attempts SET submitted_at = (SELECT strftime('%Y-%m-%dT%H:%M:%SZ', accepted_at,"
            " 'unixepoch') FROM submissions WHERE attempt = attempts.id)"
        )
    connection.close()
    served.start()
    before = time.time()
    second = served.hand_in("ada", {"greeting.py": STUB})
    assert second.status == 202, "limits ignore submissions dated in the future"
    served.judged("ada", second.json["id"])
    rows = sql(served, "SELECT accepted_at FROM submissions ORDER BY number")
    assert rows[0][0] > rows[1][0] >= before, "each submission has the time of the clock"
    standing = served.ask("GET", "/api/standing", "ada").json
    counting = {each["name"]: each["score"] for each in standing["exercises"]}
    assert counting["greeting"] == 0, "the submission sent last counts, despite its earlier time"
    (change,) = served.ask("GET", "/api/staff/queue", "staff").json["clock"]
    assert -3600 <= change["seconds"] < -3000
    page = served.ask("GET", "/class", "staff").body.decode()
    assert "The clock of this machine was set" in page and " minutes" in page
    # It is reported once, and not again while the clock runs normally.
    served.hand_in("bob", {"greeting.py": STUB})
    assert len(served.ask("GET", "/api/staff/queue", "staff").json["clock"]) == 1


def test_the_log_is_json_without_students_tokens_or_code(serving: Serving) -> None:
    served = serving().start()
    id_ = served.hand_in("ada", {"greeting.py": SOLUTION}).json["id"]
    served.judged("ada", id_)
    served.ask("GET", "/", "ada")
    served.ask("GET", f"/api/submissions/{id_}?token={served.tokens['ada']}", "0" * 32)
    served.ask("POST", "/sign-in", body=f"token={served.tokens['ada']}".encode())
    assert served.stop() == 0
    text = served.log.read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert {"request"} <= {line["said"] for line in lines}
    assert {"hand_in", "submission", "home"} <= {line.get("route") for line in lines}
    for secret in (*served.tokens.values(), served.staff, "ada", "Ada", id_, "Hello"):
        assert secret not in text


def test_staff_can_read_metrics_as_prometheus(served: Served) -> None:
    served.judged("ada", served.hand_in("ada", {"greeting.py": SOLUTION}).json["id"])
    answer = served.ask("GET", "/metrics", "staff")
    from prometheus_client.parser import text_string_to_metric_families

    families = {
        family.name: family for family in text_string_to_metric_families(answer.body.decode())
    }
    (handed,) = (
        sample.value
        for sample in families["lab_bench_requests"].samples
        if sample.labels == {"route": "hand_in", "status": "202"}
        and sample.name == "lab_bench_requests_total"
    )
    assert handed >= 1
    assert families["lab_bench_healthy"].samples[0].value == 1
    assert "ada" not in answer.body.decode()


def test_every_answer_has_a_strict_content_security_policy(served: Served) -> None:
    for path in ("/", "/class", "/api/standing", "/static/serve.js", "/nothing"):
        policy = served.ask("GET", path).headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy


def test_a_running_server_can_be_backed_up(serving: Serving, tmp_path: Path) -> None:
    served = serving().start()
    id_ = served.hand_in("ada", {"greeting.py": SOLUTION}).json["id"]
    served.judged("ada", id_)
    copy = tmp_path / "restored" / "gradebook.sqlite"
    copy.parent.mkdir()
    command = ["serve", "-o", str(served.results), "--backup", str(copy)]
    assert CliRunner().invoke(main, command).exit_code == 0
    assert CliRunner().invoke(main, command).exit_code == 2, "an existing file is not overwritten"
    with Gradebook.open(copy.parent) as book:
        entry = book.entry_of("ada")
        assert entry is not None and entry.result.score == 2.5
    with sqlite3.connect(copy) as connection:
        assert connection.execute("SELECT id FROM submissions").fetchall() == [(id_,)]


def test_the_list_of_tokens_has_owners_but_no_token(served: Served) -> None:
    done = CliRunner().invoke(main, ["tokens", str(served.results), "--list"])
    assert done.exit_code == 0
    since = "since 1970-01-01 00:00 UTC"
    assert [line.split(maxsplit=1) for line in done.output.splitlines()] == [
        ["owner", f"{since}  owner"],
        ["instructor", f"{since}  prof"],
        ["assistant", f"{since}  assistant (section A)"],
        ["observer", f"{since}  observer"],
        *(["student", f"{since}  {name}"] for name in ("ada", "bob", "eve")),
    ]
    assert not any(token in done.output for token in served.tokens.values())


def test_the_list_of_tokens_can_be_empty(tmp_path: Path) -> None:
    with Gradebook.open_to_write(tmp_path / "results"):
        pass
    done = CliRunner().invoke(main, ["tokens", str(tmp_path / "results"), "--list"])
    assert (done.exit_code, done.output.startswith("Nobody has a token")) == (0, True)
    done = CliRunner().invoke(main, ["tokens", str(tmp_path / "none"), "--list"])
    assert done.exit_code == 2 and not (tmp_path / "none").exists()


def test_tokens_are_made_replaced_and_revoked_while_the_server_runs(
    serving: Callable[..., Served], tmp_path: Path
) -> None:
    served = serving().start()
    results, roster = str(served.results), served.folder / "class.csv"
    roster.write_text(roster.read_text() + '"=cmd()",Zoe Test,zoe@example.org,\n')
    out = tmp_path / "tokens.csv"
    done = CliRunner().invoke(main, ["tokens", results, "--roster", str(roster), "-o", str(out)])
    assert done.exit_code == 0 and done.output.startswith("1 new token, "), done.output
    assert out.stat().st_mode & 0o777 == 0o600
    (header, row) = out.read_text().splitlines()
    assert header == "id,name,email,token,address" and row.startswith("'=cmd(),Zoe Test,")
    # She is not in the class list that the server read at its start.
    assert served.ask("GET", "/api/standing", row.split(",")[3]).status == 403
    done = CliRunner().invoke(main, ["tokens", results, "--replace", "ada"])
    assert served.ask("GET", "/api/standing", "ada").status == 401
    assert served.ask("GET", "/api/standing", done.output.strip()).status == 200
    assert CliRunner().invoke(main, ["tokens", results, "--revoke", "bob"]).exit_code == 0
    assert served.ask("GET", "/api/standing", "bob").status == 401
    assert CliRunner().invoke(main, ["tokens", results, "--revoke", "bob"]).exit_code == 2
    assert CliRunner().invoke(main, ["tokens", results, "--revoke-staff", "prof"]).exit_code == 0
    assert served.ask("GET", "/metrics", "staff").status == 401


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd here")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    text = (EXAMPLES / "lab-bench.service").read_text(encoding="utf-8")
    (tmp_path / "lab-bench.service").write_text(
        text.replace("/opt/lab-bench/bin/grade", "/bin/true"), encoding="utf-8"
    )
    done = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / "lab-bench.service")],
        capture_output=True,
        text=True,
        env={**os.environ, "SYSTEMD_LOG_LEVEL": "warning"},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


# A server that gets SIGTERM inside `__del__`, where an exception would be lost.
_SIGNALLED = """
import os, signal, sys
import grader.serve.app as app
from grader.cli import main

class Lost:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)

def told(function):
    def telling(*arguments, **options):
        Lost()
        return function(*arguments, **options)
    return telling

{patch}
sys.exit(main())
"""


@pytest.mark.parametrize(
    "patch",
    [
        "app.opened = told(app.opened)",
        "app._application = told(app._application)",
        "app.uvicorn.Server.run = told(app.uvicorn.Server.run)",
    ],
)
def test_a_signal_during_the_start_stops_the_server(serving: Serving, patch: str) -> None:
    served = serving().start(program=("-c", _SIGNALLED.format(patch=patch)))
    # No other signal is sent.
    assert served.wait() == 0, served.log_tail


def test_a_release_can_be_downloaded_unless_it_has_secrets(
    serving: Callable[..., Served], tmp_path: Path
) -> None:
    folder = tmp_path / "students"
    course = tmp_path / "course"
    shutil.copytree(PLAIN, course, ignore=shutil.ignore_patterns("__pycache__"))
    ignored = shutil.ignore_patterns("*.toml")
    shutil.copytree(PLAIN / "exercises", course / "tests" / "stubs", ignore=ignored)
    release(load_course(course), folder, requirement="lab-bench", judge=False)
    served = serving().start("--release", str(folder))
    assert served.ask("GET", "/release").status == 401
    for who in ("ada", "staff"):
        answer = served.ask("GET", "/release", who)
        assert answer.headers["Content-Disposition"] == 'attachment; filename="plain.zip"'
        with zipfile.ZipFile(io.BytesIO(answer.body)) as archive:
            names = archive.namelist()
        assert "exercises/text/greeting.py" in names and "README.md" in names
        assert not any("hidden" in name or "solutions" in name for name in names)
    for path in ("/", "/exercise/greeting"):
        assert 'href="/release"' in served.ask("GET", path, "ada").body.decode()
    served.stop()
    (folder / "README.md").write_text("changed", encoding="utf-8")
    with pytest.raises(GraderError, match=r"README.md was changed after the release"):
        zipped_release(folder, load_course(PLAIN))
    release(load_course(course), folder, requirement="lab-bench", suites=Tier.ALL, force=True)
    with pytest.raises(GraderError, match="hidden suites or solutions"):
        zipped_release(folder, load_course(PLAIN))
    with pytest.raises(GraderError, match="no release of this course"):
        zipped_release(PLAIN, load_course(PLAIN))


def test_a_release_may_have_a_relative_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    course = tmp_path / "course"
    shutil.copytree(PLAIN, course, ignore=shutil.ignore_patterns("__pycache__"))
    ignored = shutil.ignore_patterns("*.toml")
    shutil.copytree(PLAIN / "exercises", course / "tests" / "stubs", ignore=ignored)
    monkeypatch.chdir(course)
    beside = Path("../students")
    release(load_course(course), beside, requirement="lab-bench", judge=False)
    with zipfile.ZipFile(
        io.BytesIO(zipped_release(beside, load_course(course)).archive)
    ) as archive:
        assert "exercises/text/greeting.py" in archive.namelist()


def test_without_a_release_there_is_no_link(served: Served) -> None:
    assert served.ask("GET", "/release", "ada").status == 404
    assert "/release" not in served.ask("GET", "/", "ada").body.decode()
