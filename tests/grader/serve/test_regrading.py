"""A regrade in the page: counted before, begun by a button, behind what students hand in."""

from __future__ import annotations

from collections.abc import Callable

from click.testing import CliRunner

from grader.cli import main
from grader.gradebook import Gradebook
from grader.results import Status
from tests.grader.serve.conftest import SOLUTION, Served, marked
from tests.grader.serve.test_requests import form

PAGE = "/class/regrade"


def test_a_regrade_is_counted_before_it_is_begun_and_progress_is_in_the_queue(
    serving: Callable[..., Served],
) -> None:
    served = serving(policy='attempts = "newest"\n').start()
    for number, who in enumerate(("ada", "bob")):
        files = {"greeting.py": marked(number)}
        served.judged(who, served.hand_in(who, files).json["id"])
    assert "Nothing would be judged" in text(served, "")
    assert form(served, PAGE, "staff", exercise="").headers["Location"] == "/class#queue"
    assert queued(served) == 0
    assert served.stop() == 0
    (suite,) = served.course.glob("tests/public/**/test_greeting.py")
    changed = suite.read_text(encoding="utf-8") + "\n\nCHANGED = True\n"
    suite.write_text(changed, encoding="utf-8")
    served.start()
    served.pause()
    assert "Nothing would be judged" in text(served, "word_count")
    for chosen in ("", "greeting"):
        shown = text(served, chosen)
        assert "<strong>2 files of 2 students</strong> would be judged" in shown
    assert queued(served) == 0
    assert form(served, PAGE, "owner", exercise="greeting").status == 303
    assert queued(served) == 2
    # The button of another person does it once more, and queues nothing twice.
    assert form(served, PAGE, "staff", exercise="").status == 303
    assert queued(served) == 2
    assert (
        "2 of the waiting files are regrades" in served.ask("GET", "/class", "staff").body.decode()
    )
    handed = served.hand_in("eve", {"greeting.py": marked(7)})
    assert handed.json["exercises"]["greeting"]["place"] == 1
    served.resume()
    served.judged("eve", handed.json["id"])
    for who in ("ada", "bob"):
        mine = served.ask("GET", "/api/standing", who).json["submissions"][0]["id"]
        served.judged(who, mine)
    assert "Nothing would be judged" in text(served, "")


def test_after_a_regrade_in_the_folder_an_exercise_without_a_file_is_still_to_do(
    serving: Callable[..., Served],
) -> None:
    served = serving().start()
    served.judged("ada", served.hand_in("ada", {"greeting.py": SOLUTION}).json["id"])

    def statuses() -> dict[str, Status]:
        with Gradebook.open(served.results) as book:
            entry = book.entry_of("ada")
        assert entry is not None
        return {exercise.name: exercise.status for exercise in entry.result.exercises}

    served.stop()
    before = statuses()
    assert before["greeting"] is Status.PASSED
    assert before["word_count"] is Status.NOT_ATTEMPTED
    arguments = ["regrade", str(served.results), "--course", str(served.course)]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    assert statuses() == before


def test_only_instructors_regrade_and_only_what_is_there(served: Served) -> None:
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


def queued(served: Served) -> int:
    return int(served.ask("GET", "/api/staff/queue", "staff").json["regrades"])
