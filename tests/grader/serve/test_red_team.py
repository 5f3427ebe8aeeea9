"""Submits the attacks of `grade audit` to a server, beside an honest student's files."""

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
    """A server and the targets of its attackers."""

    served: Served
    course: Course
    canaries: Canaries
    secrets: dict[str, str]


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    course = plant_course(CATALOGUE / "course", tmp_path_factory.mktemp("planted"))
    # For practice, the suite is also public. Only the hidden suite has the planted secret.
    tests = CATALOGUE / "course" / "tests" / "hidden"
    shutil.copytree(tests, course.root / "tests" / "public")
    with Canaries() as canaries:
        served = Served(tmp_path_factory.mktemp("attacked"), course.root, POLICY)
        served.start("--jobs", "3")
        yield Attacked(served, course, canaries, hidden_canaries(course) | canaries.secrets)
        assert served.stop() == 0


def hand_in(attacked: Attacked, who: str, exercise: str, source: bytes) -> str:
    """Submit a file for an exercise, wait for its verdict, and return the server's whole answer."""
    file = attacked.course.exercise(exercise).file
    answer = attacked.served.hand_in(who, {file: source})
    assert answer.status == 202, answer
    return json.dumps(attacked.served.judged(who, answer.json["id"]), ensure_ascii=False)


def test_attacks_fail_and_honest_students_are_judged_meanwhile(
    attacked: Attacked,
) -> None:
    served, pid = attacked.served, attacked.served.pid
    # The neighbor to attack is the server, which has all secrets.
    aims = {"neighbor": pid, "neighbor_address": "no-address", "memory_mb": 256}
    # An attack that hangs takes its whole time limit. The audit runs all of them. Here, every fourth is enough.
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
            # The limit of practice runs allows no more.
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
    # No attack succeeds through practice, either.
    assert len(practiced_with) > len(attacks) // 3
    assert [*itertools.chain.from_iterable(evidence(attacked, r) for r in practiced_with)] == []
    # The gradebook has more than students see. It shows no success of an attack, either.
    results = [result for who in ATTACKERS for result in verdicts(served, who)]
    assert len(results) == len(attacks)
    assert [*itertools.chain.from_iterable(evidence(attacked, r) for r in results)] == []
    assert attacked.canaries.files_changed() == []
    assert attacked.canaries.process_harmed() == []
    # The server is still the same process, and healthy.
    assert served.pid == pid and psutil.pid_exists(pid)
    assert served.ask("GET", "/healthz").status == 200
    assert "Traceback" not in served.log.read_text()


def practice(served: Served, who: str, exercise: str, source: bytes) -> ExerciseResult:
    """Do a practice run and return its result."""
    name, told = practiced(served, who, exercise, source)
    assert name == "judged", told
    return msgspec.convert(told["exercise"], ExerciseResult)


def verdicts(served: Served, who: str) -> Iterator[ExerciseResult]:
    """Yield a student's verdicts as the gradebook has them."""
    with Gradebook.open_beside_writer(served.results) as book:
        for by_attempt in book.tables.verdicts_of(who).values():
            for verdict in by_attempt.values():
                yield verdict.result


def evidence(attacked: Attacked, result: ExerciseResult) -> Iterator[Evidence]:
    fault = result.message if result.status is Status.UNJUDGED else ""
    output = "\n".join(_texts(msgspec.to_builtins(result)))
    trial = Trial(result.score, output, 0.0, 0.0, fault)
    yield from evidence_in(trial, attacked.secrets, attacked.canaries.trophy)


def test_a_successful_attack_would_be_found(attacked: Attacked) -> None:
    """The search above finds a file that prints a secret and claims a success."""
    secret, trophy = attacked.canaries.secrets["file"], attacked.canaries.trophy
    source = f"def scale(x, factor):\n    print({secret!r}, {trophy!r})\n    return x\n".encode()
    hand_in(attacked, "eve", "scale", source)
    proofs = {
        each.proof for r in verdicts(attacked.served, "eve") for each in evidence(attacked, r)
    }
    assert {Proof.TEXT, Proof.CLAIM} <= proofs
