"""Groups of students: with alike files (`grade similar`), or with the same unnamed mistake."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from grader.cli.terminal.console import and_more, called, hang, printed, some_of
from grader.findings import first_line
from grader.gradebook.mistakes import UnnamedGroup
from grader.gradebook.similarity.evidence import LEAST_FILES
from grader.gradebook.similarity.findings import (
    AlikeCircle,
    AlikeGroup,
    Basis,
    ExerciseSurvey,
    GroupExercise,
    Similarity,
)
from grader.text import clean, counted

# The file and the report have all of them.
_SHOWN_GROUPS, _SHOWN_EXERCISES, _SHOWN_STUDENTS, _SHOWN_MATCHES = 20, 8, 12, 40
_SHOWN_CIRCLES = 6
# Limits for an unnamed mistake.
_SHOWN_MAKERS, _SHOWN_TESTS, _SHOWN_LINES = 6, 3, 40
_STYLES = {"+": "green", "-": "red", "@": "dim"}
_ADVICE = (
    "Alike files are not proof of copying: short exercises are alike by nature, and so is the work of people "
    "who learn together. It is a reason to read the code, and proves nothing: `grade report` shows each "
    "pair side by side."
)


@printed
def show_similarity(
    console: Console, similarity: Similarity, path: Path, names: Mapping[str, str]
) -> Iterator[Text]:
    """Print the groups, the strongest first, and how each exercise was decided. `names` maps ids to names."""
    for group in similarity.groups[:_SHOWN_GROUPS]:
        yield from _alike(console, group, names)
    where = "; the file and the report have them all."
    yield from and_more(len(similarity.groups) - _SHOWN_GROUPS, "group", "", where)
    if not similarity.groups:
        yield Text("No pair stands out.")
    yield Text()
    compared = [survey for survey in similarity.exercises if survey.files > 1]
    for survey in compared:
        prefix = Text.assemble((survey.exercise, "bold"), "  ")
        yield from hang(console, prefix, _survey(survey))
    if (rest := len(similarity.exercises) - len(compared)) > 0:
        text = f"{counted(rest, 'exercise')} with fewer than two files: nothing to compare."
        yield Text(text, "dim")
    if similarity.corpus_surveys:
        yield from _corpus(similarity, names)
    if similarity.groups or similarity.corpus:
        yield from hang(console, "", _ADVICE, "dim")
    yield Text(clean(str(path), 1000), "dim")


def _alike(console: Console, group: AlikeGroup, names: Mapping[str, str]) -> Iterator[Text]:
    """Describe a group, and how alike its files are in each exercise."""
    students = [called(student, names) for student in group.students]
    alike = f"alike in {counted(len(group.exercises), 'exercise')}"
    if not any(exercise.alone for exercise in group.exercises):
        alike += ", in none of them enough by itself"
    head = some_of(students, _SHOWN_STUDENTS, "  ")
    yield from hang(console, "", Text.assemble((head, "bold"), f": {alike}"))
    for exercise in group.exercises[:_SHOWN_EXERCISES]:
        if all(circle.students == group.students for circle in exercise.circles):
            yield Text(f"  {_share(exercise):>10}  {exercise.exercise}")
            continue
        # Not all members are alike in this exercise, so each circle of alike ones gets a line.
        for circle in exercise.circles[:_SHOWN_CIRCLES]:
            prefix = f"  {_share(circle):>10}  {exercise.exercise}  "
            those = [called(student, names) for student in circle.students]
            yield from hang(console, prefix, some_of(those, _SHOWN_STUDENTS))
        more = len(exercise.circles) - _SHOWN_CIRCLES
        yield from and_more(more, f"circle in {exercise.exercise}", " " * 14)
    yield from and_more(len(group.exercises) - _SHOWN_EXERCISES, "exercise", " " * 14)


def _corpus(similarity: Similarity, names: Mapping[str, str]) -> Iterator[Text]:
    """List files that are alike to a file of the corpus, which is named by the beginning of its digest."""
    yield Text()
    yield Text("With the corpus:", "bold")
    for match in similarity.corpus[:_SHOWN_MATCHES]:
        share = f"{int(100 * match.similarity)} %"
        student = called(match.student, names)
        file = f"corpus-{match.corpus_digest[:12]}"
        yield Text.assemble(f"  {share:>5}  {match.exercise}  ", (student, "bold"), f"  {file}")
    where = "; the file has them all."
    yield from and_more(len(similarity.corpus) - _SHOWN_MATCHES, "", " " * 9, where)
    if not similarity.corpus:
        yield Text("  No file stands out.")
    for survey in similarity.corpus_surveys:
        learned = "learned from it and the class"
        how = learned if survey.learned else "too few to learn from, or given"
        files, share = counted(survey.files, "file"), _percent(survey.threshold)
        text = f"{files} of the corpus, reported from {share} on ({how})"
        yield Text.assemble((survey.exercise, "bold"), f"  {text}")


def _share(alike: GroupExercise | AlikeCircle) -> str:
    # Rounded down: 100 % means that files share everything.
    lowest, highest = int(100 * alike.lowest), int(100 * alike.highest)
    return f"{highest} %" if lowest == highest else f"{lowest} to {highest} %"


def _survey(survey: ExerciseSurvey) -> str:
    """Describe how many files and pairs there are, how the threshold was found, and the effect of others."""
    words = [counted(survey.files, "file"), counted(survey.alike, "alike pair")]
    if survey.short:
        words.insert(1, f"{survey.short} with too little code to compare")
    decided = f"reported from {_percent(survey.threshold)} on"
    match survey.basis:
        case Basis.FIXED:
            decided = f"fewer than {LEAST_FILES} files, too few to learn from: {decided}"
        case Basis.NONE:
            decided = (
                "files are ordinarily alike here: reported only if everything is in common, unless a third of "
                "the class shares it"
            )
        case Basis.LEARNED:
            decided = f"the class's own bulk ends at {_percent(survey.bulk_end or 0)}, {decided}"
    others = [
        f"{pairs} from {percent} on"
        for percent, pairs in survey.at_other_thresholds.items()
        if pairs > survey.alike
    ]
    would = f"; --threshold would report {', '.join(others)}" if others else ""
    return f"{', '.join(words)}; {decided}{would}"


def _percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")


# --- failures without a sentence ----------------------------------------------------------------------


@printed
def show_groups(
    console: Console,
    groups: Sequence[UnnamedGroup],
    shown: Sequence[tuple[UnnamedGroup, Sequence[str]]],
) -> Iterator[Text]:
    """Print these groups, each with its difference to a right answer, and their total number."""
    if not groups:
        yield Text("Every failure has a sentence that explains it.")
        return
    for group, difference in shown:
        yield from _unnamed(console, group, difference)
    students = len({student for group in groups for student in group.students})
    total = f"{counted(len(groups), 'group')} of {counted(students, 'student')}"
    left = len(groups) - len(shown)
    yield Text(f"{total}{f', {left} of them not shown (--most)' if left else ''}.")
    advice = f'`grade mistakes RESULTS --name {groups[0].id} "What is wrong, and what to do."`'
    yield from hang(console, "", f"Name one: {advice}", "dim")


def _unnamed(console: Console, group: UnnamedGroup, difference: Sequence[str]) -> Iterator[Text]:
    """Describe an unnamed mistake: its students, its tests, and the difference to a right answer."""
    where = f"{group.exercise}, {group.function}" if group.function else group.exercise
    students = some_of([clean(student, 40) for student in group.students], _SHOWN_MAKERS)
    count = counted(len(group.students), "student")
    yield from hang(console, "", Text.assemble((group.id, "bold"), f"  {count}: {students}"))
    yield from hang(console, "  ", clean(where, 200), "dim")
    for test in group.tests[:_SHOWN_TESTS]:
        yield from hang(console, "  x ", clean(test.title, 300))
        yield from hang(console, "    ", clean(first_line(test.finding), 300))
    yield from and_more(len(group.tests) - _SHOWN_TESTS, "test", "    ")
    for line in difference[:_SHOWN_LINES]:
        yield Text(f"    {clean(line, 200)}", _STYLES.get(line[:1], ""))
    yield from and_more(len(difference) - _SHOWN_LINES, "line", "    ")
    yield Text()
