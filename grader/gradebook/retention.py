"""How long a class is kept: for the time `keep` of its policy, after its last submission.

Any student's last submission counts, so a class stays whole. Nothing is erased without a person: commands and
the server say when the time has passed, and `grade erase --expired` erases, after asking.
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import NamedTuple

from grader.gradebook.backup import Backup, backups_in
from grader.gradebook.book import Gradebook
from grader.gradebook.times import local, read_period, submitted
from grader.text import counted, listed


class Retention(NamedTuple):
    """How long a class is kept: `keep` after the `last` submission, `until` a time."""

    keep: str
    last: datetime.datetime
    until: datetime.datetime

    def has_passed(self, now: datetime.datetime) -> bool:
        """Return whether the class should be erased."""
        return now >= self.until


def retention_of(book: Gradebook) -> Retention | None:
    """Return how long the class of a gradebook is kept; None without a rule or a submission."""
    policy = book.policy
    if not policy.rules.keep or (last := submitted(book.tables.last_submission())) is None:
        return None
    zone = policy.zone or datetime.UTC
    until = read_period(policy.rules.keep).after(last.astimezone(zone))
    return Retention(policy.rules.keep, last, until)


def passed_words(book: Gradebook, now: datetime.datetime) -> str:
    """Return a sentence for staff once the time has passed, else an empty text."""
    retention, zone = retention_of(book), book.policy.zone
    if retention is None or not retention.has_passed(now):
        return ""
    last, until = (local(time, zone)[:10] for time in (retention.last, retention.until))
    return (
        f"The policy keeps this class for {retention.keep} after its last submission on {last}, until {until}. "
        f"That time has passed: `grade erase {book.folder} --expired` erases the work and the data of all "
        "students."
    )


def old_backup_words(book: Gradebook, now: datetime.datetime) -> str:
    """Return a sentence for staff about backups older than the class is kept, else an empty text."""
    keep, zone = book.policy.rules.keep, book.policy.zone or datetime.UTC
    if not keep:
        return ""
    period = read_period(keep)
    old = [b for b in backups_of(book) if period.after(b.made_at.astimezone(zone)) <= now]
    if not old:
        return ""
    names = listed([backup.path.name for backup in old], 5)
    return (
        f"{old[0].path.parent} has {counted(len(old), 'backup')} older than {keep}, for which the policy keeps "
        f"this class: delete {names}."
    )


def backups_of(book: Gradebook) -> list[Backup]:
    """Return the backups that a server made of a gradebook, the oldest first."""
    folder = book.facts.backups
    if not folder:
        return []
    return [backup for backup in backups_in(Path(folder)) if backup.secret == book.facts.secret]
