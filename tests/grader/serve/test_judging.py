"""The judging threads: next job, faults, practice runs, and events. Judges and desk are stand-ins."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from grader.course.manifest import Course, load_course
from grader.errors import IsolationError
from grader.gradebook.queue import Job
from grader.gradebook.verdicts import Question, Questions, WaitingFile
from grader.judge.assignment import GradingOptions, JudgeFault, Judgment
from grader.results import Disclosure, Visibility
from grader.serve import desk
from grader.serve import judging as module
from grader.serve.desk import Taken
from grader.serve.judging import Judging, Order
from grader.serve.practice import Practice, Run
from grader.serve.threads import CHANGED, CLASS, Event
from grader.submissions import ExerciseFile
from tests.grader.builders import checked, exercise

COURSE = load_course(Path(__file__).parents[1] / "courses" / "plain")
WORDS = COURSE.exercise("word_count")
SOURCE = COURSE.solution(WORDS).read_bytes()
OPTIONS = GradingOptions()
QUESTIONS = Questions(COURSE, OPTIONS)
TESTS = [checked("a"), checked("b", visibility=Visibility.HIDDEN), checked("c")]
JUDGMENT = Judgment(exercise(*TESTS, name="word_count"), ())
FAULT = JudgeFault("The suite cannot be read.")


def question() -> Question:
    """A question that needs a judge, about a file that is already parsed."""
    return QUESTIONS.about(WORDS, ExerciseFile(SOURCE), WaitingFile(cast(Any, "a key"), ()))


def taken() -> Taken:
    return Taken(Job(3, "word_count", "ada"), question())


class Desk:
    """A desk in memory, which records the calls."""

    def __init__(self) -> None:
        self.jobs: list[Taken] = []
        self.finished: list[tuple[Taken, object]] = []
        self.given_back: list[Taken] = []
        self.regrades: list[bool] = []
        self.errors: list[Exception] = []
        self.is_paused, self.is_erased = False, False

    def ask(self, question: Callable[[Any], Any]) -> Future[Any]:
        answer: Future[Any] = Future()
        if self.errors:
            answer.set_exception(self.errors.pop())
        else:
            answer.set_result(question(self))
        return answer

    def take(self, *, regrades: bool) -> Taken | None:
        self.regrades.append(regrades)
        return self.jobs.pop(0) if self.jobs and not self.is_paused else None

    def finish(self, of: Taken, judged: object) -> list[int]:
        self.finished.append((of, judged))
        # The file of an erased student is gone. A team has several attempts.
        return [] if self.is_erased else [of.job.attempt, 9]

    def give_back(self, of: Taken) -> None:
        self.given_back.append(of)

    def places(self) -> dict[tuple[int, str], int]:
        return {(5, "greeting"): 1}

    def ended(self) -> list[int]:
        return [7]


class Judges:
    """Judges that report TESTS and then return `answer`, or raise it."""

    def __init__(self) -> None:
        self.answer: object = JUDGMENT
        self.tasks: list[Any] = []
        self.meanwhile: Callable[[], object] = lambda: None
        self.fault: Exception | None = None

    def start(self) -> None:
        if self.fault is not None:
            raise self.fault

    def complete(self, task: Any, done: Callable[[Any], None], call_off: object = None) -> object:
        self.tasks.append(task)
        for test in TESTS:
            done(test)
        self.meanwhile()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Room:
    """Judging on this thread with one judge, and all events that it sent."""

    def __init__(self, course: Course = COURSE) -> None:
        self.told: list[tuple[int, Event]] = []
        self.places: list[object] = []
        self.ended: list[str] = []
        self.desk, self.judges = Desk(), Judges()
        hub = cast(
            Any,
            SimpleNamespace(
                tell=lambda topic, event: self.told.append((topic, event)),
                tell_places=self.places.append,
            ),
        )
        self.practice = Practice(course, OPTIONS, hub)
        self.judging = Judging(
            *(course, OPTIONS, cast(Any, self.judges), 1, cast(Any, self.desk), hub),
            *(self.practice, lambda name, seconds: self.ended.append(name)),
        )

    def run(self) -> Run:
        run = Run(-1, "eve", question())
        self.practice.add(run)
        return run

    def close_then(self, answer: object) -> None:
        """Close the server while a judge works, which then gives `answer`."""
        self.judges.meanwhile = self.judging._closing.set
        self.judges.answer = answer

    def work(self, rounds: int) -> None:
        """Run the loop of a thread for `rounds` rounds, and one more as the server closes."""
        take = self.desk.take

        def asked(*, regrades: bool) -> Taken | None:
            if len(self.desk.regrades) == rounds:
                self.judging._closing.set()
            return take(regrades=regrades)

        self.desk.take = asked  # type: ignore[method-assign]
        self.judging._work()


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> Room:
    monkeypatch.setattr(module, "_AGAIN_SECONDS", 0)
    return Room()


# --- verdicts ---------------------------------------------------------------------------------------


def test_a_verdict_is_kept_and_announced(room: Room) -> None:
    job = taken()
    room.judging._judge(job)
    assert room.desk.finished == [(job, JUDGMENT)] and not room.desk.given_back
    (task,) = room.judges.tasks
    assert (task.exercise, task.source) == ("word_count", SOURCE)
    assert [topic for topic, event in room.told if event is CHANGED] == [3, 3, 9, CLASS]
    assert room.ended == ["word_count"]


def test_a_verdict_that_is_not_kept_is_not_announced(room: Room) -> None:
    room.desk.is_erased = True
    room.judging._judge(taken())
    assert [topic for topic, event in room.told if event is CHANGED] == [3]
    assert room.ended == ["word_count"]


def test_a_fault_of_the_grader_goes_to_the_desk(room: Room) -> None:
    room.judges.answer = FAULT
    room.judging._judge(taken())
    assert [judged for _, judged in room.desk.finished] == [FAULT]
    assert room.judging._fault_of_judges == "", "other jobs can be judged"


def test_a_fault_while_closing_gives_the_job_back(room: Room) -> None:
    room.close_then(FAULT)
    room.judging._judge(job := taken())
    assert room.desk.given_back == [job] and not room.desk.finished and not room.ended
    # A verdict reached while closing is kept.
    room.judges.answer = JUDGMENT
    room.judging._judge(job)
    assert room.desk.finished == [(job, JUDGMENT)]


def test_without_a_sandbox_the_job_waits_and_staff_sees_why(room: Room) -> None:
    room.judges.answer = IsolationError("No sandbox starts.")
    room.judging._judge(job := taken())
    assert room.desk.given_back == [job] and not room.desk.finished and not room.ended
    assert room.judging.fault == "No sandbox starts."
    room.judges.answer = JUDGMENT
    room.judging._judge(job)
    assert room.judging._fault_of_judges == ""


@pytest.mark.parametrize(
    ("level", "ends"), [(Disclosure.MISTAKE, [1, 2]), (Disclosure.EVERYTHING, [1, 2, 3])]
)
def test_progress_of_hidden_tests_needs_full_disclosure(
    level: Disclosure, ends: list[int], room: Room
) -> None:
    here = Room(msgspec.structs.replace(COURSE, disclose=level))
    here.judging._judge(taken())
    tests = [(topic, event.data) for topic, event in here.told if event.name == "test"]
    assert {topic for topic, _ in tests} == {3}
    assert [data["ended"] for _, data in tests] == ends
    # Two public tests and four hidden ones.
    assert {data["of"] for _, data in tests} == {2 if level is Disclosure.MISTAKE else 6}


# --- a full disk ------------------------------------------------------------------------------------


def test_a_write_to_a_full_disk_is_retried(room: Room) -> None:
    seen: list[str] = []
    room.desk.errors = [sqlite3.OperationalError("disk full"), OSError(28, "No space")]
    ask = room.desk.ask

    def asked(question: Callable[[Any], Any]) -> Future[Any]:
        seen.append(room.judging._fault_of_disk)
        return ask(question)

    room.desk.ask = asked  # type: ignore[method-assign]
    room.judging._judge(taken())
    assert len(room.desk.finished) == 1
    assert seen[0] == "" and "No space" in seen[1] and "disk full" in seen[2]
    assert room.judging._fault_of_disk == ""


def test_a_closing_server_does_not_wait_for_the_disk(room: Room) -> None:
    room.judging._closing.set()
    room.desk.errors = [OSError(28, "No space")]
    room.judging._judge(taken())
    assert not room.desk.finished
    assert "No space" in room.judging.fault


def test_faults_of_disk_judges_and_threads_are_shown_in_this_order(
    room: Room,
) -> None:
    judging = room.judging
    assert judging.fault == "1 judge ended by a fault, which is in the log."
    judging._fault_of_judges = "No sandbox starts."
    assert judging.fault == "No sandbox starts."
    judging._fault_of_disk = "It is full."
    assert judging.fault == "It is full."
    judging._fault_of_disk = judging._fault_of_judges = ""
    judging._threads = [cast(Any, SimpleNamespace(is_alive=lambda: True))]
    assert (judging.fault, judging.alive) == ("", 1)


# --- the next job -----------------------------------------------------------------------------------


def test_submissions_precede_practice_and_practice_precedes_regrades(room: Room) -> None:
    job, run = taken(), room.run()
    room.desk.jobs = [job]
    room.work(2)
    assert [task.exercise for task in room.judges.tasks] == ["word_count"] * 2
    assert [of for of, _ in room.desk.finished] == [job]
    assert run.result is not None
    # The desk is asked for a regrade only if no practice run waits.
    assert room.desk.regrades == [False, False, True]


def test_a_pause_also_stops_practice(room: Room) -> None:
    run, room.desk.is_paused = room.run(), True
    order = room.judging._next(cast(Any, room.desk))
    assert order == Order(None, places={(5, "greeting"): 1}, may_practice=False, ended=[7])
    room.desk.is_paused = False
    assert room.judging._next(cast(Any, room.desk)).may_practice
    assert not run.is_over


def test_no_run_begins_once_a_submission_is_queued(room: Room) -> None:
    run, judging = room.run(), room.judging
    version = judging._version
    judging.wake()
    judging._practice_if(version)
    assert not room.judges.tasks and not run.is_over
    judging._practice_if(judging._version)
    assert run.is_over


def test_known_verdicts_and_places_are_announced(room: Room) -> None:
    room.desk.jobs = [taken()]
    room.work(1)
    assert (7, CHANGED) in room.told
    assert room.places == [{(5, "greeting"): 1}]
    assert len(room.desk.finished) == 1


def test_a_job_taken_while_closing_is_given_back(room: Room) -> None:
    job = taken()

    def take(*, regrades: bool) -> Taken:
        room.judging._closing.set()
        return job

    room.desk.take = take  # type: ignore[method-assign]
    room.judging._work()
    assert room.desk.given_back == [job] and not room.judges.tasks


def test_a_thread_that_starts_without_a_sandbox_still_tries_jobs(room: Room) -> None:
    room.judges.fault = IsolationError("No sandbox starts.")
    room.desk.jobs = [taken()]
    faults: list[str] = []
    room.desk.places = lambda: faults.append(room.judging.fault) or {}  # type: ignore[func-returns-value, method-assign]
    room.work(1)
    assert faults[0] == "No sandbox starts."
    assert len(room.desk.finished) == 1 and room.judging._fault_of_judges == ""


# --- practice ---------------------------------------------------------------------------------------


def practiced(room: Room, answer: object) -> Run:
    run = room.run()
    room.judges.answer = answer
    room.judging._practice_if(room.judging._version)
    return run


def test_a_practice_run_gets_its_result_and_progress(room: Room) -> None:
    run = practiced(room, JUDGMENT)
    assert run.is_over and run.result is not None and run.result.tests == tuple(TESTS)
    (task,) = room.judges.tasks
    assert task.options.suites == (Visibility.PUBLIC,)
    assert [e.data["ended"] for topic, e in room.told if e.name == "test"] == [1, 2, 3]
    assert {topic for topic, event in room.told if event.name == "test"} == {run.topic}
    assert not room.ended and not room.desk.finished, "a run is not kept"


def test_an_interrupted_run_waits_again_and_a_faulty_run_ends(room: Room) -> None:
    run = room.run()
    room.judges.meanwhile = lambda: run.call_off.ask()
    room.judges.answer = FAULT
    room.judging._practice_if(room.judging._version)
    assert not run.is_over and (room.practice.waiting, run.times_called_off) == (1, 1)
    room.judges.meanwhile = lambda: None
    room.judging._practice_if(room.judging._version)
    assert run.is_over and run.result is None and room.practice.waiting == 0


def test_without_a_sandbox_a_practice_run_waits(room: Room) -> None:
    run = practiced(room, IsolationError("No sandbox starts."))
    assert not run.is_over and room.practice.waiting == 1
    assert room.judging.fault == "No sandbox starts."
    room.judges.answer = JUDGMENT
    room.judging._practice_if(room.judging._version)
    assert run.is_over and room.judging._fault_of_judges == ""


def test_practice_is_called_off_only_if_no_judge_is_idle(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    run, judging = room.run(), room.judging
    assert room.practice.take() is run
    judging._idle = 1
    judging.make_room(1)
    assert not run.call_off.is_asked and judging._room_at == math.inf
    now[0] = 0.25
    judging.make_room(2)
    # The run's turn has 0.75 seconds left. Then `_look_again` is due.
    assert not run.call_off.is_asked and judging._room_at == 1.0
    now[0] = 1.0
    judging.make_room(2)
    assert run.call_off.is_asked


def test_the_end_of_a_turn_makes_room_for_waiting_submissions(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    judging, waiting = room.judging, list[int]()
    judging._room_at = 0.0

    def make_room(urgent: int) -> None:
        waiting.append(urgent)
        judging._closing.set()

    monkeypatch.setattr(judging, "make_room", make_room)
    monkeypatch.setattr(desk.Desk, "urgent", lambda _: 4)
    judging._look_again()
    assert waiting == [4] and judging._room_at == math.inf
