"""Similarity findings limited to some exercises of a course."""

from __future__ import annotations

from grader.gradebook.similarity.findings import (
    AlikeCircle,
    AlikeGroup,
    CorpusMatch,
    CorpusSurvey,
    ExerciseSurvey,
    GroupExercise,
    Similarity,
    SimilarPair,
)


def part(exercise: str, *students: str) -> GroupExercise:
    circles = (AlikeCircle(students=students, lowest=0.8, highest=0.9),) if students else ()
    return GroupExercise(
        exercise=exercise, pairs=1, lowest=0.8, highest=0.9, alone=True, circles=circles
    )


def pair(exercise: str) -> SimilarPair:
    return SimilarPair(
        exercise=exercise, left="ada", right="ben", similarity=0.9, left_lines=(), right_lines=()
    )


def match(exercise: str) -> CorpusMatch:
    return CorpusMatch(
        exercise=exercise,
        student="ada",
        similarity=0.9,
        lines=(),
        corpus_lines=(),
        digest="a",
        corpus_digest="b",
    )


BOTH = ("glu", "relu")
WHOLE = Similarity(
    threshold=0.7,
    exercises=tuple(ExerciseSurvey(exercise=e, files=3, short=0, alike=1) for e in BOTH),
    pairs=tuple(map(pair, BOTH)),
    groups=(
        AlikeGroup(
            students=("ada", "ben", "cy"),
            exercises=(part("glu", "ada", "ben"), part("relu", "ben", "cy")),
        ),
        AlikeGroup(students=("dee", "eve"), exercises=(part("relu", "dee", "eve"),)),
    ),
    corpus=tuple(map(match, BOTH)),
    corpus_surveys=tuple(
        CorpusSurvey(exercise=e, files=2, threshold=0.6, learned=False) for e in BOTH
    ),
)


def test_only_findings_of_the_given_exercises_are_left() -> None:
    left = WHOLE.only(["glu"])
    assert left == Similarity(
        threshold=0.7,
        exercises=WHOLE.exercises[:1],
        pairs=WHOLE.pairs[:1],
        groups=(AlikeGroup(students=("ada", "ben"), exercises=(part("glu", "ada", "ben"),)),),
        corpus=WHOLE.corpus[:1],
        corpus_surveys=WHOLE.corpus_surveys[:1],
    )
    assert WHOLE.only(BOTH) == WHOLE
    assert WHOLE.only([]).groups == ()


def test_a_group_of_an_earlier_grader_keeps_its_students() -> None:
    old = Similarity(
        exercises=(),
        pairs=(),
        groups=(AlikeGroup(students=("ada", "ben"), exercises=(part("glu"),)),),
    )
    assert old.only(["glu"]) == old
