"""The texts of a server's mails: all news for one student in one text.

They are made from disclosed results, like the student's own page.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from grader.course.manifest import Course
from grader.exports.formats.feedback import exercise_lines, plain_feedback
from grader.exports.texts import one_line
from grader.exports.verdicts import unjudged
from grader.gradebook import Gradebook, queue
from grader.gradebook.outbox import Event, Kind
from grader.judge.scoring import extra_words
from grader.results import Entry, StudentInfo
from grader.serve.views import Views
from grader.text import listed, number, utc

# The newest submissions in a mail are shown in full, and the others counted.
_SHOWN = 3


class Text(NamedTuple):
    """The subject of a mail, and its text without the closing lines."""

    subject: str
    text: str


def text_about(
    book: Gradebook, course: Course, student: StudentInfo, events: Iterable[Event]
) -> Text | None:
    """Return the text about these events; None if the course dropped all of their exercises."""

    views = Views(book, course)
    entry = views.entry(student)
    if entry is None:
        return None
    by_kind: dict[Kind, list[Event]] = {kind: [] for kind in Kind}
    for event in events:
        by_kind[event.kind].append(event)
    submissions = _submissions(views, student, [e.about for e in by_kind[Kind.VERDICTS]])
    changed = _exercises(book, entry, by_kind)
    blocks = _verdicts(book, submissions)
    if counting := _counting(entry, submissions):
        # This comes first, since the judge's points below leave out the cost of lateness.
        blocks.insert(0, "\n".join(("What counts now:", *counting, "")))
    if any(changed.values()):
        blocks.append("\n".join(_from_staff(entry, changed, is_first=not blocks)))
    if not blocks:
        return None
    if entry.result.max_score and not unjudged(entry.result):
        blocks.append(_sum(book, entry))
    named = [*_judged(submissions), *changed[Kind.ANSWERS], *changed[Kind.CHANGES]]
    title = one_line(_title(book, named))
    return Text(f"{title}: {_news(submissions, changed)}", "\n".join(blocks))


def _title(book: Gradebook, exercises: Iterable[str]) -> str:
    """Return the title of the course or assignment; in a term, with the assignment of these exercises."""
    names = {*exercises}
    titles = [part.title for part in book.facts.parts.values() if names <= {*part.exercises}]
    return ", ".join((book.work_title, *titles[:1]))


def _judged(submissions: Iterable[Entry]) -> list[str]:
    """Return the exercises of these submissions, each once."""
    names = (e.name for submission in submissions for e in submission.result.exercises)
    return list(dict.fromkeys(names))


def _submissions(views: Views, student: StudentInfo, ids: Iterable[str]) -> list[Entry]:
    """Return the verdicts on submissions as the student may read them, the newest first."""
    found = [handed for id_ in ids if (handed := queue.submission(views.book, id_)) is not None]
    found.sort(key=lambda handed: -handed.number)
    numbers = {attempt.id: attempt.number for attempt in views.book.work(student).attempts}
    return [
        Entry(
            student=student,
            attempt=numbers[handed.attempt],
            submitted_at=utc(handed.accepted_at),
            timezone=views.book.policy.rules.timezone,
            result=result,
        )
        for handed in found
        if (result := views.submission(handed, {}).result) is not None
    ]


def _verdicts(book: Gradebook, submissions: Sequence[Entry]) -> list[str]:
    blocks = [
        plain_feedback(entry, _title(book, _judged([entry]))) for entry in submissions[:_SHOWN]
    ]
    if earlier := len(submissions[_SHOWN:]):
        were = "submission was" if earlier == 1 else "submissions were"
        blocks.append(f"Before that, {earlier} {were} judged; your page has the verdicts.\n")
    return blocks


def _counting(entry: Entry, submissions: Iterable[Entry]) -> list[str]:
    """Return a line for each of these exercises whose points have a reason, such as lateness.

    The verdict shows only the judge's points, without the reason.
    """
    judged = {*_judged(submissions)}
    return [
        f"  {one_line(e.title)}: {number(e.score)} of {number(e.max_score)} points. "
        + one_line(" ".join(e.mark.reasons))
        for e in entry.result.exercises
        if e.name in judged and e.mark is not None and e.mark.reasons
    ]


def _sum(book: Gradebook, entry: Entry) -> str:
    """Return the line with the points of all exercises; in a term, practice is left out."""
    where = "in all assignments" if book.facts.parts else "for all exercises"
    result = entry.result
    extra = extra_words(result.exercises)
    return (
        f"Your points {where} now: {number(result.score)} of {number(result.max_score)}{extra}.\n"
    )


def _exercises(
    book: Gradebook, entry: Entry, events: dict[Kind, list[Event]]
) -> dict[Kind, list[str]]:
    """Return the entry's exercises with answers and with changes, each once."""
    requests = {request.number: request.exercise for request in book.requests()}
    answered = [requests.get(event.request, "") for event in events[Kind.ANSWERS]]
    changed = [event.about for event in events[Kind.CHANGES]]
    known = {exercise.name for exercise in entry.result.exercises}
    return {
        Kind.ANSWERS: [name for name in dict.fromkeys(answered) if name in known],
        Kind.CHANGES: [name for name in dict.fromkeys(changed) if name in known],
    }


def _from_staff(entry: Entry, changed: dict[Kind, list[str]], *, is_first: bool) -> Iterable[str]:
    student = entry.student
    if is_first:
        yield f"For {one_line(student.name or student.id)}."
    names = {exercise.name: one_line(exercise.title) for exercise in entry.result.exercises}
    if answered := changed[Kind.ANSWERS]:
        yield f"Your regrade request was answered: {listed([names[n] for n in answered])}."
    if points := changed[Kind.CHANGES]:
        yield f"The staff changed or marked: {listed([names[n] for n in points])}."
    for exercise in entry.result.exercises:
        if exercise.name in {*answered, *points}:
            yield ""
            yield from exercise_lines(exercise)
    yield ""


def _news(submissions: Sequence[Entry], changed: dict[Kind, list[str]]) -> str:
    """Return the rest of the subject, without points, since a locked screen shows it."""
    parts = []
    if submissions:
        parts.append(f"{listed(_judged(submissions), 5)} judged")
    if answered := changed[Kind.ANSWERS]:
        parts.append(f"your request on {listed(answered, 5)} answered")
    if points := changed[Kind.CHANGES]:
        parts.append(f"your points for {listed(points, 5)}")
    return "; ".join(parts)
