"""Alike files of a class: what `grade similar` finds, and what it makes of it.

`survey` goes through a class, exercise by exercise, and gathers pairs in groups. `normal_form` writes code in
one way, `fingerprints` are runs of its tokens, and `comparison` says what two files have in common. `evidence`
learns from the class what is out of the ordinary. `findings` are the results, and the file that keeps them;
`handover` writes the files of a class as Dolos and JPlag read them.

copydetect was weighed and left: its last change is of March 2024, it compares every two files, and
its choice of fingerprints hangs on Python's hash seed (in three processes the same two files were
0, 13 and 14 % alike).
"""

from grader.gradebook.similarity.findings import (
    AlikeGroup,
    Basis,
    ExerciseSurvey,
    GroupExercise,
    Similarity,
    SimilarPair,
    read_similar,
    source_digest,
    write_similar,
)
from grader.gradebook.similarity.handover import write_files
from grader.gradebook.similarity.survey import find_similar

__all__ = [
    "AlikeGroup",
    "Basis",
    "ExerciseSurvey",
    "GroupExercise",
    "SimilarPair",
    "Similarity",
    "find_similar",
    "read_similar",
    "source_digest",
    "write_files",
    "write_similar",
]
