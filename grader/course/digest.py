"""The digest of everything that judges an exercise: a verdict with another digest is stale."""

from __future__ import annotations

import hashlib

import msgspec

from grader.course.manifest import Course, Exercise, Help, probe_of
from grader.course.suite import is_compared


def exercise_digest(course: Course, exercise: Exercise) -> str:
    """Return the digest of one exercise: its manifest entry, stub, given files, suites and probes.

    The solution is included if a suite compares with it, and so are needed packages that are not installed,
    since their tests are left out. Keys that only help the student are not included: a better hint makes no
    verdict stale. Neither are keys with their default values, so that a new key does not change every digest.
    """
    entry = msgspec.to_builtins(exercise)
    judging = {name: value for name, value in entry.items() if name not in Help.__struct_fields__}
    judging |= {"unmet": [need.share for need in exercise.unmet]} if exercise.unmet else {}
    digest = hashlib.sha256(msgspec.json.encode(judging, order="sorted"))
    digest.update(exercise.file.encode() + b"\0")
    digest.update(hashlib.sha256(course.stub(exercise).source).digest())
    for name, source in course.given(exercise).items():
        digest.update(name.encode() + b"\0")
        digest.update(hashlib.sha256(source).digest())
    suites = list(course.suites(exercise).values())
    for path in (*suites, *(probe for probe in map(probe_of, suites) if probe.is_file())):
        digest.update(course.name_of(path).encode() + b"\0")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    # Comparisons depend on the solution.
    solution = course.solution_source(exercise)
    if solution is not None and is_compared(course.suites(exercise)):
        digest.update(b"solution\0" + hashlib.sha256(solution).digest())
    return digest.hexdigest()
