"""An open server: the course, the threads with its gradebook, the judges, and the listeners."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from grader.course.manifest import Course
from grader.gradebook import Gradebook
from grader.gradebook.database import FILE, explaining_errors
from grader.gradebook.verdicts import Questions
from grader.judge.assignment import GradingOptions
from grader.judge.pool import LocalPool
from grader.results import StudentInfo
from grader.serve.backups import BackupPlan, Backups
from grader.serve.desk import Desk
from grader.serve.drawing import Drawing
from grader.serve.exporting import Exports
from grader.serve.gate import Gate
from grader.serve.hand_in import HandInReader
from grader.serve.identity import GitHub, Identity
from grader.serve.judging import Judging
from grader.serve.mailing import Mailing
from grader.serve.observing import Metrics
from grader.serve.passback import PassBack
from grader.serve.practice import Practice
from grader.serve.summary import ClassSummaries
from grader.serve.threads import BookThread, Hub
from grader.serve.views import Views

if TYPE_CHECKING:
    from grader.authoring.handout import Handout
    from grader.exports.mail.mail_file import MailServer
    from grader.gradebook.cluster import ClusterJudges
    from grader.serve.sign_in.university import University

# systemd and Docker wait longer before they kill.
_STOP_SECONDS = 8.0


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a server: a course, the class that hands in, and the number of judges.

    The judges run on this machine, or on the Dask cluster at the address `scheduler`. People open the server at
    its `address`, if that is known, and may sign in with workflows of `github` or at a `university`. The
    `handout` is a release to work with at home, `mail` a mail server, `backups` a plan; each may be missing.
    """

    course: Course
    results: Path
    students: tuple[StudentInfo, ...]
    options: GradingOptions
    judges: int
    scheduler: str = ""
    github: GitHub | None = None
    university: University | None = None
    address: str = ""
    handout: Handout | None = None
    backups: BackupPlan | None = None
    mail: MailServer | None = None


class OpenServer(NamedTuple):
    """Everything that the routes need, and the number of an earlier server's jobs that wait again.

    `desk` writes to the gradebook, `views` reads for students, `summaries` for the class; `timezone` comes from
    the policy.
    """

    course: Course
    identity: Identity
    reader: HandInReader
    desk: BookThread[Desk]
    views: BookThread[Views]
    summaries: ClassSummaries
    hub: Hub
    judging: Judging
    practice: Practice
    drawing: Drawing
    metrics: Metrics
    timezone: str
    waits_again: int
    university: University | None
    address: str
    students: tuple[StudentInfo, ...]
    passback: PassBack
    handout: Handout | None
    gate: Gate
    exports: Exports
    backups: Backups
    mailing: Mailing


@contextlib.contextmanager
def opened(settings: Settings) -> Iterator[OpenServer]:
    """Open a server for the block; at its end, running jobs finish or wait again.

    Raises GraderError if another grading writes to the gradebook, or if it belongs to another course.
    """
    course, results, options = settings.course, settings.results, settings.options
    metrics, hub, questions = Metrics(), Hub(), Questions(course, options)
    with contextlib.ExitStack() as stack:
        desk = stack.enter_context(BookThread("desk", lambda: _desk(settings, questions)))
        with explaining_errors(results / FILE):
            waits_again = desk.ask(Desk.open).result()
        views = stack.enter_context(BookThread("reader", lambda: _views(settings)))
        of_class = stack.enter_context(
            BookThread("class", lambda: Gradebook.open_beside_writer(results))
        )
        judges = _judges(settings)
        practice = Practice(course, options, hub)
        exports = Exports(results)
        stack.callback(exports.close)
        passback = PassBack(results)
        hub.follow(passback.wake)
        mailing = Mailing(results, course, settings.mail, settings.address)
        hub.follow(mailing.wake)
        judging = Judging(
            course,
            options,
            judges,
            settings.judges,
            desk,
            hub,
            practice,
            ended=metrics.judged,
        )
        drawing = Drawing(course, options, is_here=not settings.scheduler)
        stack.callback(drawing.close)
        server = OpenServer(
            course,
            Identity(views, settings.students, settings.github, _origins(settings)),
            HandInReader(course, questions),
            desk,
            views,
            ClassSummaries(of_class, course),
            hub,
            judging,
            practice,
            drawing,
            metrics,
            views.ask(lambda views: views.book.policy.rules.timezone).result(),
            waits_again,
            settings.university,
            settings.address,
            settings.students,
            passback,
            settings.handout,
            Gate(course),
            exports,
            Backups(results, settings.backups, metrics.registry),
            mailing,
        )
        judging.start()
        stack.callback(judging.close, _STOP_SECONDS)
        passback.start()
        stack.callback(passback.close)
        server.backups.start()
        stack.callback(server.backups.close)
        mailing.start()
        stack.callback(mailing.close)
        yield server


def _origins(settings: Settings) -> set[str]:
    """Return the origins of sessions that are valid here."""
    university = settings.university
    return set() if university is None else {university.sign_in.origin}


@contextlib.contextmanager
def _desk(settings: Settings, questions: Questions) -> Iterator[Desk]:
    with Gradebook.open_to_write(settings.results) as book:
        if (plan := settings.backups) is not None and str(plan.folder) != book.facts.backups:
            # `grade erase` names the folder of backups.
            book.change(backups=str(plan.folder))
        yield Desk(book, settings.course, settings.options, questions, settings.students)


@contextlib.contextmanager
def _views(settings: Settings) -> Iterator[Views]:
    with Gradebook.open_beside_writer(settings.results) as book:
        yield Views(book, settings.course, settings.students)


def _judges(settings: Settings) -> LocalPool | ClusterJudges:
    """Return the judges of this machine, or of the cluster if the settings name one."""
    if not settings.scheduler:
        return LocalPool(settings.course, settings.judges, settings.options)
    # Dask is an extra of its own.
    from grader.gradebook.cluster import ClusterJudges

    return ClusterJudges(settings.course, settings.scheduler, settings.options)
