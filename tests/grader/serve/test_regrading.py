"""Regrades on the class page: counted first, started by a button, judged after submissions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from click.testing import CliRunner

from grader.cli import main
from grader.course.manifest import load_course
from grader.gradebook import Gradebook, queue
from grader.results import Outcome, Status
from grader.serve.desk import Desk
from grader.serve.regrading import count, regrade
from grader.serve.threads import CLASS
from tests.grader.serve.conftest import PLAIN, SOLUTION, Served, marked
from tests.grader.serve.test_requests import form
from tests.grader.serve.test_teams import Class
from tests.grader.serve.test_term import COUNTING

PAGE = "/class/regrade"


def changed(book: Gradebook) -> None:
    """Make all verdicts so far those of other suites."""
    with book.transaction():
        connection = book.tables.connection
        connection.execute("UPDATE grades SET key = 'of another suite' WHERE key != ''")


class Asked:
    """The parts of a server that a regrade uses, with the desk on this thread."""

    def __init__(self, there: Class) -> None:
        self.woken, self.told = 0, list[int]()

        async def answer(question: Callable[[Desk], Any]) -> Any:
            return question(there.desk)

        def wake() -> None:
            self.woken += 1

        parts = {
            "desk": SimpleNamespace(answer=answer),
            "judging": SimpleNamespace(wake=wake),
            "hub": SimpleNamespace(tell=lambda topic, event: self.told.append(topic)),
        }
        self.server = cast(Any, SimpleNamespace(**parts))


def test_regrades_are_counted_queued_once_and_judged_after_submissions(tmp_path: Path) -> None:
    course = load_course(PLAIN)
    greeting, everything = [course.exercise("greeting")], course.exercises
    with Gradebook.open_to_write(tmp_path / "results") as book:
        there = Class(book, course, {"ada": "", "bob": "", "eve": ""})
        asked = Asked(there)
        there.hand_in("ada", greeting=marked(1), word_count=COUNTING)
        there.hand_in("bob", greeting=marked(2))
        there.judge()
        assert asyncio.run(count(asked.server, everything)) == (0, 0)
        changed(book)
        assert asyncio.run(count(asked.server, everything)) == (3, 2)
        assert asyncio.run(count(asked.server, greeting)) == (2, 2)
        assert (queue.counts(book).regrades, asked.woken, asked.told) == (0, 0, [])
        assert asyncio.run(regrade(asked.server, greeting)) == 2
        assert (queue.counts(book).regrades, asked.woken, asked.told) == (2, 1, [CLASS])
        # Another person presses the button, too.
        asyncio.run(regrade(asked.server, everything))
        assert queue.counts(book).regrades == 3
        there.hand_in("eve", greeting=marked(7))
        first, *regraded = there.judge()
        assert first == ("eve", "greeting") and len(regraded) == 3
        assert asyncio.run(count(asked.server, everything)) == (0, 0)


def test_files_of_a_changed_suite_are_judged_again(
    serving: Callable[..., Served],
) -> None:
    served = serving(policy='attempts = "newest"\n')
    with Gradebook.open_to_write(served.results) as book:
        there = Class(book, load_course(served.course), {"ada": "", "bob": ""})
        for number, who in enumerate(("ada", "bob")):
            there.hand_in(who, greeting=marked(number))
        there.judge()
    suite = served.course / "tests" / "public" / "text" / "test_greeting.py"
    suite.write_text(suite.read_text().replace("Hello", "Good day"), encoding="utf-8")
    served.start()
    served.pause()
    assert "Nothing would be judged" in text(served, "word_count")
    for chosen in ("", "greeting"):
        shown = text(served, chosen)
        assert "<strong>2 files of 2 students</strong> would be judged" in shown
    pressed = form(served, PAGE, "owner", exercise="greeting")
    assert (pressed.status, pressed.headers["Location"]) == (303, "/class#queue")
    waiting = served.ask("GET", "/class", "staff").body.decode()
    assert "2 of the waiting files are regrades" in waiting
    assert by_program(served, b'{"exercises": ["word_count"]}') == {"queued": 0}
    assert by_program(served, b"{}") == {"queued": 2}
    served.resume()
    for who in ("ada", "bob"):
        mine = served.ask("GET", "/api/standing", who).json["submissions"][0]["id"]
        assert served.judged(who, mine)["result"]["score"] == 0
    assert "Nothing would be judged" in text(served, "")
    assert by_program(served, b"{}") == {"queued": 0}


def test_a_file_that_timed_out_is_judged_again_as_in_a_batch(tmp_path: Path) -> None:
    course = load_course(PLAIN)
    with Gradebook.open_to_write(tmp_path / "results") as book:
        there = Class(book, course, {"ada": "", "bob": ""})
        asked = Asked(there)
        there.hand_in("ada", greeting=marked(1))
        there.judge()
        there.hand_in("bob", greeting=marked(2))
        there.judge(Outcome.TIMEOUT)
        assert there.status("bob") == "failed"
        assert asyncio.run(count(asked.server, course.exercises)) == (1, 1)
        asyncio.run(regrade(asked.server, course.exercises))
        assert there.judge() == [("bob", "greeting")]
        assert there.status("bob") == "passed"


def test_a_regrade_and_a_mistake_in_the_corrections_keep_stubs_after_work_listed(
    tmp_path: Path,
) -> None:
    course = load_course(PLAIN)
    stub = course.stub(course.exercise("greeting")).source
    with Gradebook.open_to_write(tmp_path / "results") as book:
        there = Class(book, course, {"ada": "", "bob": ""})

        def listed() -> list[str]:
            return [entry.student for entry in book.facts.attention]

        for name in ("ada", "bob"):
            there.hand_in(name, greeting=SOLUTION)
        there.judge()
        there.hand_in("ada", greeting=stub)
        assert listed() == ["ada"]
        changed(book)
        assert asyncio.run(regrade(Asked(there).server, course.exercises)) > 0
        there.judge()
        assert listed() == ["ada"]
        (tmp_path / "results" / "corrections.toml").write_text("[[correction]]\nodd = 1\n")
        assert there.hand_in("bob", greeting=stub).student == "bob"
        assert set(listed()) == {"ada", "bob"}


def test_grade_regrade_keeps_exercises_without_a_file_to_do(
    tmp_path: Path,
) -> None:
    results = tmp_path / "results"
    with Gradebook.open_to_write(results) as book:
        there = Class(book, load_course(PLAIN), {"ada": ""})
        there.hand_in("ada", greeting=SOLUTION)
        there.judge()

    def statuses() -> dict[str, Status]:
        with Gradebook.open(results) as book:
            entry = book.entry_of("ada")
        assert entry is not None
        return {exercise.name: exercise.status for exercise in entry.result.exercises}

    before = statuses()
    assert before["greeting"] is Status.PASSED
    assert before["word_count"] is Status.NOT_ATTEMPTED
    done = CliRunner().invoke(main, ["regrade", str(results), "--course", str(PLAIN)])
    assert done.exit_code == 0, done.output
    assert statuses() == before


def test_only_instructors_can_regrade_and_only_known_exercises(served: Served) -> None:
    for who in ("assistant", "observer"):
        page = served.ask("GET", "/class", who).body.decode()
        assert f'href="{PAGE}"' not in page
        assert served.ask("GET", PAGE, who).status == 403
    assert f'href="{PAGE}"' in served.ask("GET", "/class", "staff").body.decode()
    for answer in (
        served.ask("GET", f"{PAGE}?exercise=nothing", "staff"),
        form(served, PAGE, "staff", exercise="nothing"),
    ):
        assert answer.status == 404 and b"no such exercise" in answer.body


def text(served: Served, exercise: str) -> str:
    answer = served.ask("GET", f"{PAGE}?exercise={exercise}", "staff")
    assert answer.status == 200, answer
    return answer.body.decode()


def by_program(served: Served, body: bytes) -> object:
    return served.ask("POST", "/api/staff/regrade", "staff", body).json
