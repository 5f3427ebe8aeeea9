"""Regrade requests: a student's question about an exercise, and the answers of staff.

Requests and answers are never changed or removed. A request in a team's file is every member's request, and one
answer is for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from grader.errors import SubmissionError
from grader.gradebook.book import Gradebook
from grader.gradebook.work import Answer, Request
from grader.submissions.requests import message_of
from grader.text import counted, listed, utc

# Per student and exercise. More are not kept, so that text from outside stays bounded.
MAX_REQUESTS = 20


def keep_requests(
    book: Gradebook, student: str, messages: Mapping[str, str], asked_at: str, origin: str
) -> int:
    """Keep a student's requests, by exercise, within a transaction; return the number of new ones.

    A repeated message is not a new request. `asked_at` is in UTC; empty means now.
    """
    if not messages:
        return 0
    before = [request.exercise for request in book.tables.requests_of(student)]
    return sum(
        book.tables.add_request(student, exercise, message, asked_at or utc(), origin)
        for exercise, message in messages.items()
        if before.count(exercise) < MAX_REQUESTS
    )


def numbered(requests: Sequence[Request], number: int) -> Request:
    """Return the request with this number; raises SubmissionError if there is none."""
    found = next((request for request in requests if request.number == number), None)
    if found is None:
        there = listed([str(request.number) for request in requests]) if requests else "none yet"
        raise SubmissionError(f"There is no request {number}. Requests here: {there}.")
    return found


def shared(book: Gradebook, request: Request) -> list[Request]:
    """Return the request, and the same request of other members of its student's team."""
    if not book.facts.teams:
        return [request]
    teams = {student.id: student.team for student in book.students()}
    team = teams[request.student]
    return [
        other
        for other in book.requests()
        if (other.exercise, other.message) == (request.exercise, request.message)
        and (other.student == request.student or (team and teams[other.student] == team))
    ]


def answer(book: Gradebook, request: Request, text: str, author: str) -> list[Request]:
    """Keep an answer, and write the results that show it; returns the requests that it answers.

    Raises SubmissionError for an empty answer.
    """
    if not (text := message_of(text)):
        raise SubmissionError("The answer is empty: write a text for the student.")
    answered = shared(book, request)
    new = Answer(text, message_of(author), utc())
    with book.changing_results(same.student for same in answered):
        for same in answered:
            book.tables.add_answer(same.number, new)
    return answered


def ask(book: Gradebook, student: str, exercise: str, message: str, origin: str) -> Request:
    """Keep a request that came in another way than as a file, and write the result that shows it.

    Returns the request. Raises SubmissionError if the message is empty or a repetition, or there are too many
    requests.
    """
    if not (message := message_of(message)):
        raise SubmissionError("The request is empty: write what staff should look at.")
    of_student = book.tables.requests_of(student)
    before = [other for other in of_student if other.exercise == exercise]
    if same := [other for other in before if other.message == message]:
        raise SubmissionError(f"This request already exists, as request {same[0].number}.")
    if len(before) >= MAX_REQUESTS:
        raise SubmissionError(f"The limit is {counted(len(before), 'request')} about {exercise}.")
    with book.changing_results([student]):
        keep_requests(book, student, {exercise: message}, "", origin)
    return book.tables.requests_of(student)[-1]


def open_requests(requests: Iterable[Request]) -> list[Request]:
    """Return the requests that have no answer."""
    return [request for request in requests if request.is_open]
