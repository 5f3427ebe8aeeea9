"""The attacks of `grade audit`, handed in over the wire beside an honest student's file."""

from __future__ import annotations

import itertools
import json
import shutil
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import msgspec
import psutil
import pytest

from grader.audit.auditor import _texts, hidden_canaries, plant_course
from grader.audit.canaries import Canaries
from grader.audit.catalogue import CATALOGUE, Attack, Proof, arm, read_catalogue
from grader.audit.evidence import Evidence, Trial, evidence_in
from grader.course.manifest import Course
from grader.gradebook import Gradebook
from grader.results import ExerciseResult, Status
from grader.serve.practice import MAX_RUNS
from tests.grader.serve.conftest import Served
from tests.grader.serve.test_practice import practiced

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the attacks are Linux's"),
    pytest.mark.thorough,
]

ATTACKERS = ("ada", "bob")
POLICY = 'attempts = "best"\nmost_submissions = 100000\n'


class Attacked(NamedTuple):
    """A server, and the targets of its attackers."""

    served: Served
    course: Course
    canaries: Canaries
    secrets: dict[str, str]


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    course = plant_course(CATALOGUE / "course", tmp_path_factory.mktemp("planted"))
    # The same questions as a public suite, for practice; only the hidden suite has the planted secret.
    tests = CATALOGUE / "course" / "tests" / "hidden"
    shutil.copytree(tests, course.root / "tests" / "public")
    with Canaries() as canaries:
        served = Served(tmp_path_factory.mktemp("attacked"), course.root, POLICY)
        served.start("--jobs", "3")
        yield Attacked(served, course, canaries, hidden_canaries(course) | canaries.secrets)
        assert served.stop() == 0


def hand_in(attacked: Attacked, who: str, exercise: str, source: bytes) -> str:
    """Hand a file in for an exercise, wait for its verdict, and return the whole answer of the server."""
    file = attacked.course.exercise(exercise).file
    answer = attacked.served.hand_in(who, {file: source})
    assert answer.status == 202, answer
    return json.dumps(attacked.served.judged(who, answer.json["id"]), ensure_ascii=False)


def test_no_attack_earns_reads_or_breaks_anything_and_honest_students_are_judged_meanwhile(
    attacked: Attacked,
) -> None:
    served, pid = attacked.served, attacked.served.pid
    # A neighbor to aim at is the server, which holds all that is secret.
    aims = {"neighbor": pid, "neighbor_address": "no-address", "memory_mb": 256}
    # One that hangs uses up all of its time. The audit has all of them, and every fourth shows that the server
    # goes on.
    hanging = [each.name for each in read_catalogue(CATALOGUE) if each.proof is Proof.TIME]
    left_out = {*hanging} - {*hanging[::4]}
    attacks = [each for each in read_catalogue(CATALOGUE) if each.name not in left_out]
    practiced_with: list[ExerciseResult] = []
    right = attacked.course.solution(attacked.course.exercise("scale")).read_bytes()

    def attack(who: str, mine: list[Attack]) -> list[tuple[str, str]]:
        found = []
        for number, each in enumerate(mine):
            source = arm(each, attacked.canaries.targets() | aims)
            answer = hand_in(attacked, who, each.exercise, source)
            found.append((each.name, answer))
            # No student has more runs.
            if number % 2 == 0 and number // 2 < MAX_RUNS:
                practiced_with.append(practice(served, who, each.exercise, source))
        return found

    with ThreadPoolExecutor(3) as threads:
        runs = [
            threads.submit(attack, who, attacks[place :: len(ATTACKERS)])
            for place, who in enumerate(ATTACKERS)
        ]
        for number in itertools.count():
            honest = json.loads(hand_in(attacked, "eve", "scale", right + b"\n# %d\n" % number))
            assert honest["result"]["score"] == 10, (number, honest)
            if all(run.done() for run in runs):
                break
        answers = [answer for run in runs for answer in run.result()]
    assert len(answers) == len(attacks)
    for name, answer in answers:
        for about, secret in attacked.secrets.items():
            assert secret not in answer, (name, about)
    # No attack succeeds through the public tests either, and answers to the page hold no secret.
    assert len(practiced_with) > len(attacks) // 3
    assert [*itertools.chain.from_iterable(evidence(attacked, r) for r in practiced_with)] == []
    # A gradebook knows more than its students: nothing there shows that an attack succeeded.
    results = [result for who in ATTACKERS for result in verdicts(served, who)]
    assert len(results) == len(attacks)
    assert [*itertools.chain.from_iterable(evidence(attacked, r) for r in results)] == []
    assert attacked.canaries.files_changed() == []
    assert attacked.canaries.process_harmed() == []
    # The server is the one that was started, and well.
    assert served.pid == pid and psutil.pid_exists(pid)
    assert served.ask("GET", "/healthz").status == 200
    assert "Traceback" not in served.log.read_text()


def practice(served: Served, who: str, exercise: str, source: bytes) -> ExerciseResult:
    """The result of a practice run."""
    name, told = practiced(served, who, exercise, source)
    assert name == "judged", told
    return msgspec.convert(told["exercise"], ExerciseResult)


def verdicts(served: Served, who: str) -> Iterator[ExerciseResult]:
    """Every verdict on a student, whole."""
    with Gradebook.open_beside_writer(served.results) as book:
        for by_attempt in book.tables.verdicts_of(who).values():
            for verdict in by_attempt.values():
                yield verdict.result


def evidence(attacked: Attacked, result: ExerciseResult) -> Iterator[Evidence]:
    fault = result.message if result.status is Status.UNJUDGED else ""
    output = "\n".join(_texts(msgspec.to_builtins(result)))
    trial = Trial(result.score, output, 0.0, 0.0, fault)
    yield from evidence_in(trial, attacked.secrets, attacked.canaries.trophy)


def test_what_would_show_a_success_is_found(attacked: Attacked) -> None:
    """What the search above rests on, with a file that says a secret and claims a success."""
    secret, trophy = attacked.canaries.secrets["file"], attacked.canaries.trophy
    source = f"def scale(x, factor):\n    print({secret!r}, {trophy!r})\n    return x\n".encode()
    hand_in(attacked, "eve", "scale", source)
    proofs = {
        each.proof for r in verdicts(attacked.served, "eve") for each in evidence(attacked, r)
    }
    assert {Proof.TEXT, Proof.CLAIM} <= proofs
