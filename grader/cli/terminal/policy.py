"""Output of `grade policy` and `grade adjust`: rules, corrections, and their effect on points."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from grader.cli.terminal.console import and_more, called, hang, print_lines, printed, say
from grader.cli.terminal.student_result import total_line
from grader.exports.verdicts import unjudged
from grader.gradebook import Gradebook
from grader.gradebook.corrections import (
    Correction,
    correction_words,
    holding,
    of_gone_tests,
    on_one_line,
    outdated,
    unknown_names,
)
from grader.gradebook.extending import extension_words
from grader.gradebook.policy import (
    CountedAttempt,
    Deadline,
    Extension,
    File,
    Override,
    Policy,
    Weighed,
    due_words,
    late_words,
)
from grader.gradebook.policy_file import odd_times
from grader.gradebook.standing import choices, handed_in, with_late_days
from grader.gradebook.times import instant, local, span_words, submitted
from grader.results import Entry, ExerciseResult, Status, StudentInfo
from grader.text import clean, counted, number

_COUNTS = {
    CountedAttempt.NEWEST: "The newest attempt counts",
    CountedAttempt.BEST: "The attempt with the most points counts",
    CountedAttempt.AVERAGE: "The average of all attempts counts",
}
_LONGEST = 500
# Most students with changed points, and most corrections of one kind.
_SHOWN = 20


@printed
def show_policy(console: Console, policy: Policy, exercises: Sequence[str]) -> Iterator[Text]:
    """Print the rules in words, and the due times of these exercises."""
    rules, zone = policy.rules, policy.zone
    yield from hang(console, "", _first_words(policy))
    dues = {exercise: policy.due(exercise) for exercise in exercises}
    for due in rules.due:
        names = [exercise for exercise, its in dues.items() if its is due]
        head = Text.assemble((f"Due {local(instant(due.at, zone), zone)}", "bold"), "  ")
        yield Text()
        yield from hang(console, head, ", ".join(names) or "no exercise of this class")
        late = rules.late if due.late is None else due.late
        words = late_words(late)
        if rules.late_days and due.late_days is not None:
            words += f"; at most {counted(due.late_days, 'late day')}"
        yield from hang(console, "  ", words, "dim")
    undated = [exercise for exercise, due in dues.items() if due is None]
    if rules.due and undated:
        yield Text()
        yield from hang(console, "Never due: ", ", ".join(undated))
    extensions = (*rules.extension, *policy.given)
    if rules.override or extensions:
        yield Text()
    for override in rules.override:
        yield from hang(console, "  ", _override_words(override))
    for extension in extensions:
        yield from hang(console, "  ", _extension_words(extension, zone))
    if rules.keep:
        yield Text()
        yield from hang(
            console, "", f"The class is kept for {rules.keep} after its last submission."
        )
    for text in odd_times(policy):
        yield from hang(console, "", text, "yellow")


def _first_words(policy: Policy) -> str:
    rules = policy.rules
    most, zone = rules.max_attempts, rules.timezone
    first = "" if most is None else f", of the first {most}"
    budget = counted(rules.late_days, "late day")
    days = f" Each student has {budget} for the term." if rules.late_days else ""
    times = f" Times are in {zone}." if zone else ""
    return f"{_COUNTS[rules.attempts]}{first}.{days}{times}"


def _override_words(override: Override) -> str:
    """Describe other rules for some exercises: `strides, relu: the first 5 attempts may count`."""
    words = []
    if override.attempts is not None:
        words.append(_COUNTS[override.attempts].lower())
    if override.max_attempts is not None:
        words.append(f"the first {counted(override.max_attempts, 'attempt')} may count")
    if override.most_submissions is not None:
        words.append(f"at most {counted(override.most_submissions, 'submission')} in 24 hours")
    if override.cool_down is not None:
        words.append(f"{span_words(override.cool_down)} between submissions")
    names = ", ".join((*override.exercises, *override.chapters))
    return clean(f"{names}: {'; '.join(words)}", _LONGEST)


def _extension_words(extension: Extension, zone: datetime.tzinfo | None) -> str:
    """Describe an extension: for whom, for which exercises, and until when."""
    students = [*filter(None, (extension.student, *extension.students))]
    groups = (("section", extension.section), ("team", extension.team))
    who = ", ".join([*students, *(f"{kind} {name}" for kind, name in groups if name)])
    what = ", ".join((*extension.exercises, *extension.chapters)) or "everything"
    end = f"by {span_words(extension.by)}" if extension.by is not None else ""
    if extension.until is not None:
        end = f"until {local(instant(extension.until, zone), zone)}"
    reason = f": {extension.reason}" if extension.reason else ""
    return clean(f"Extension for {who}, {what}, {end}{reason}", _LONGEST)


@printed
def show_explanation(
    console: Console, book: Gradebook, student: StudentInfo, exercises: Sequence[str]
) -> Iterator[Text]:
    """Print every attempt, due times and points, of these exercises or of all."""
    entry, work = book.entry_of(student.id), book.work(student)
    if entry is None:
        return
    rules = with_late_days(work, book.rules())
    policy = rules.policy
    name = f"  {clean(student.name, 60)}" if student.name not in ("", student.id) else ""
    yield Text.assemble((clean(student.id, 60), "bold"), name)
    yield from hang(console, "", _first_words(policy), "dim")
    if work.has_versions and not work.is_ordered:
        text = "An attempt has no timestamp: the attempt found last is the newest."
        yield from hang(console, "", text, "yellow")
    chosen, skipped = choices(work, rules), 0
    for result in entry.result.exercises:
        if not exercises or result.name in exercises:
            files = handed_in(work, rules, result.name)
            is_never_due = not files and policy.deadline(student, result.name) is None
            is_changed = result.mark and (result.mark.reasons or result.mark.comment)
            if is_never_due and not exercises and policy.rules.due and not is_changed:
                skipped += 1
                continue
            choice = chosen.get(result.name)
            counting = choice.attempt.number if choice is not None else 0
            yield Text()
            yield from _exercise_lines(console, book, policy, student, result, files, counting)
    if skipped:
        yield Text()
        yield Text(f"Never due, and nothing was handed in: {counted(skipped, 'more exercise')}.")
    if budget := policy.rules.late_days:
        yield Text()
        yield Text.assemble("Late days left: ", (f"{policy.late_days_left} of {budget}", "bold"))
    yield Text()
    yield total_line(entry.result)


def _exercise_lines(
    console: Console,
    book: Gradebook,
    policy: Policy,
    student: StudentInfo,
    result: ExerciseResult,
    files: Sequence[File],
    counting: int,
) -> Iterator[Text]:
    """Describe an exercise: points, due time, every attempt, and reasons for changed points."""
    is_open = result.status is Status.UNJUDGED
    points = "not judged" if is_open else f"{number(result.score)} / {number(result.max_score)}"
    aside = (f"  {result.aside}" if result.aside else "", "dim")
    yield Text.assemble((result.name, "bold"), f"  {points}", aside)
    deadline = policy.deadline(student, result.name)
    if deadline is not None:
        yield from hang(console, "  ", clean(due_words(deadline, policy.zone), _LONGEST))
    for weighed in policy.weighed(student, result.name, files):
        mark = ">" if weighed.file.attempt == counting else " "
        words = ", ".join(_attempt_words(policy, result.name, weighed, deadline))
        yield from hang(console, f"  {mark} attempt {weighed.file.attempt}  ", words)
    if not files:
        yield Text("    nothing was handed in")
    for correction in holding(book.corrections(), student.id, result.name, result):
        yield from hang(console, "    ", _correction_line(correction, policy.zone))
    if result.provisional:
        yield from hang(console, "    ", clean(result.provisional, _LONGEST), "yellow")
    if result.mark is not None:
        # The sentences shown beside the points in every output.
        for reason in (*result.mark.reasons, *result.mark.comment.splitlines()):
            yield from hang(console, "    | ", clean(reason, _LONGEST), "dim")


def _attempt_words(
    policy: Policy, exercise: str, weighed: Weighed, deadline: Deadline | None
) -> Iterator[str]:
    """Describe an attempt: when it was handed in, why it does not count, and its points."""
    time = submitted(weighed.file.submitted_at)
    yield local(time, policy.zone) if time is not None else "no timestamp, so never late"
    if weighed.late:
        yield f"{span_words(weighed.late)} late"
        if deadline is not None and weighed.late <= deadline.rules.grace:
            yield "within the grace"
    elif deadline is not None and time is not None:
        yield "on time"
    if weighed.file.late and not weighed.late:
        yield "the platform calls it late, which costs nothing here"
    if weighed.is_closed:
        yield "too late to count"
    if weighed.is_beyond:
        most = policy.rules_of(exercise).max_attempts or 0
        yield f"beyond the first {counted(most, 'attempt')}"
    judged = weighed.file.judged
    yield "not judged" if judged is None else f"{number(judged)} points"
    if judged is not None and weighed.lost and weighed.may_count:
        yield f"{number(weighed.points or 0)} after {number(weighed.lost)} % lost"


# --- corrections, and the effect of a change ----------------------------------------------------------


def _correction_line(correction: Correction, zone: datetime.tzinfo | None) -> Text:
    """Describe a correction: its effect, reason, author and time."""
    judged = correction.judged
    words = correction_words(correction)
    words += f": {correction.reason}" if correction.reason else ""
    words += f' (comment: "{on_one_line(correction.comment)}")' if correction.comment else ""
    by = f"  {correction.author}, {local(correction.time, zone)}"
    by += f", when {number(judged)} was judged" if judged is not None else ""
    return Text.assemble(clean(words, _LONGEST), (clean(by, _LONGEST), "dim"))


@printed
def show_corrections(console: Console, book: Gradebook) -> Iterator[Text]:
    """Print every correction with its number, which is its position in the file; then every extension."""
    corrections, extensions = book.corrections(), book.extensions()
    names, zone = book.names(), book.policy.zone
    for place, correction in enumerate(corrections, 1):
        who = called(correction.student, names) if correction.student else "all"
        prefix = Text.assemble((f"{place:>4}", "bold"), "  ")
        head = clean(f"{who} {correction.exercise}: ", 200)
        yield from hang(console, prefix, Text.assemble(head, _correction_line(correction, zone)))
    if not corrections:
        yield Text("No points were adjusted.")
    for place, extension in enumerate(extensions, len(corrections) + 1):
        prefix = Text.assemble((f"{place:>4}", "bold"), "  ")
        words = f"{extension_words(extension, zone)}: {extension.reason}"
        head = clean(f"{called(extension.student, names)}: more time {words}", _LONGEST)
        by = f"  {extension.author}, {local(extension.time, zone)}"
        yield from hang(console, prefix, Text.assemble(head, (clean(by, _LONGEST), "dim")))


class Points(NamedTuple):
    """A student's points, their maximum, and whether something is not judged."""

    score: float
    worth: float
    is_open: bool


class Effect(NamedTuple):
    """The number of students who gained, who lost, and with unjudged exercises."""

    gained: int
    lost: int
    waiting: int


def points_of(entries: Iterable[Entry], exercise: str = "") -> dict[str, Points]:
    """Return each student's points, of one exercise or in total."""
    points = {}
    for entry in entries:
        result, gone = entry.result, Points(0.0, 0.0, is_open=False)
        whole = Points(result.score, result.max_score, bool(unjudged(result)))
        each = {
            e.name: Points(e.score, e.max_score, e.status is Status.UNJUDGED)
            for e in result.exercises
        }
        points[entry.student.id] = each.get(exercise, gone) if exercise else whole
    return points


def show_effect(
    console: Console,
    before: Mapping[str, Points],
    after: Mapping[str, Points],
    names: Mapping[str, str],
) -> Effect:
    """Print students whose points changed, losers first."""
    changed = [(after[name].score - was.score, name) for name, was in before.items()]
    changed = sorted((gain, name) for gain, name in changed if gain and not after[name].is_open)
    for gain, name in changed[:_SHOWN]:
        was, now = before[name], after[name]
        line = f"{called(name, names)}: {number(was.score)} to {number(now.score)} of {number(now.worth)}"
        prefix = Text.assemble("  ", (f"{gain:+7.2f}", "green" if gain > 0 else "red"), "  ")
        print_lines(console, hang(console, prefix, line))
    print_lines(console, and_more(len(changed) - _SHOWN, "student"))
    gained = sum(gain > 0 for gain, _ in changed)
    waiting = sum(points.is_open for points in after.values())
    text = f"{gained} gained, {len(changed) - gained} lost, "
    text += f"{len(before) - len(changed) - waiting} as before"
    text += f", {waiting} not judged." if waiting else "."
    say(console, text, "bold")
    return Effect(gained, len(changed) - gained, waiting)


@printed
def show_outdated(console: Console, book: Gradebook) -> Iterator[Text]:
    """Print corrections whose exercise has been judged differently since, and corrections without effect."""
    corrections, names = book.corrections(), book.names()
    students = sorted(
        {correction.student for correction in corrections if correction.judged is not None}
    )
    entries = [entry for entry in map(book.entry_of, students) if entry is not None]
    changed = [
        f"{called(correction.student, names)} {correction.exercise}: judged "
        f"{number(correction.judged or 0.0)} when it was adjusted ({correction_words(correction)}), "
        f"{number(judged)} now"
        for correction, judged in outdated(corrections, entries)
    ]
    gone = [
        f"{called(gone.student, names) if gone.student else 'the class'} {gone.exercise}: "
        f"{correction_words(gone)}"
        for gone in of_gone_tests(corrections, book.facts.blank)
    ]
    ids = [student.id for student in book.students()]
    lists = {
        "Adjusted before, and judged differently since:": changed,
        "Adjusted before, for tests that are gone, so without effect:": gone,
        "Corrections that change nothing:": list(
            unknown_names(corrections, ids, book.exercises, book.extensions())
        ),
    }
    for heading, lines in lists.items():
        if lines:
            yield from (Text(), Text(heading, "bold"))
        for line in lines[:_SHOWN]:
            yield from hang(console, "  ", clean(line, _LONGEST))
        yield from and_more(len(lines) - _SHOWN)
    if changed or gone:
        text = "The corrections still apply; `grade adjust` with --undo takes one back."
        yield from hang(console, "", text, "dim")
