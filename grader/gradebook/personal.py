"""Everything that a gradebook keeps about one student: to hand it over, or to erase it.

Theory of operation. The rows of a student in a table are found by one of its columns, or by a condition below.
A table with neither is refused, so that no data stays behind unseen. Erased rows are overwritten
(`secure_delete`), the file is rewritten without free pages, and the write-ahead log is emptied. Copies
elsewhere remain: `beside` lists files in the same folder that may have some.

Other modules with SQL are `tables`, `database`, `queue`, `drafts`, `platforms`, `pushed`, `outbox` and
`migration`.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from grader.errors import GraderError
from grader.gradebook.book import Gradebook
from grader.gradebook.corrections import Correction
from grader.gradebook.corrections_file import (
    CORRECTIONS_FILE,
    change_corrections,
    change_extensions,
    corrections_text,
    read_file,
    writing,
)
from grader.gradebook.database import FILE
from grader.gradebook.facts import MarkDraft
from grader.gradebook.policy import Extension, Rules
from grader.submissions import safe_name

# Conditions by column; the first column that a table has decides.
_BY_COLUMN = {
    "student": "student = :student",
    "attempt": "attempt IN (SELECT id FROM attempts WHERE student = :student)",
    "holder": "role = 'student' AND holder = :student",
}
_BY_TABLE = {
    "students": "id = :student",
    "answers": "request IN (SELECT number FROM requests WHERE student = :student)",
    "shared": "EXISTS (SELECT 1 FROM attempts WHERE student = :student AND id IN (attempt, handed_in))",
    "pushed": "json_extract(pushed, '$.student') = :student",
}
# Tables without rows of one student. `erase` cleans `facts` and `sources` separately.
_ABOUT_NOBODY = {
    *("facts", "sources", "environments"),
    *("platforms", "platform_links", "platform_passback"),
    *("platform_invitations", "platforms_waiting"),
    # Belongs to the tokens of assistants.
    "token_sections",
    "outbox_kinds",
}
# Conditions of other tables read these, so they are erased last, in this order.
_LAST = ("requests", "attempts", "students")
# Files of the gradebook itself, which `erase` cleans.
_OWN_FILES = re.compile(
    rf"{re.escape(FILE)}(-wal|-shm)?|{re.escape(CORRECTIONS_FILE)}|results|lti_key\.pem|.*\.lock(-journal)?"
)


class Kept(NamedTuple):
    """All that a gradebook keeps about a student: rows by table, and entries in other places."""

    rows: dict[str, list[dict[str, Any]]]
    corrections: tuple[Correction, ...]
    attention: tuple[str, ...]
    extensions: tuple[Extension, ...]


def kept_about(book: Gradebook, student: str) -> Kept:
    """Return all that a gradebook keeps about the student with this id.

    Raises GraderError for a table of a newer grader, CorrectionsError for a mistake in the corrections file.
    """
    connection = book.tables.connection
    rows = {}
    for table, condition in _conditions(connection).items():
        query = f"SELECT * FROM {table} WHERE {condition}"  # noqa: S608 (both are ours)
        cursor = connection.execute(query, {"student": student})
        names = [column[0] for column in cursor.description]
        if found := [dict(zip(names, row, strict=True)) for row in cursor]:
            rows[table] = found
    facts = book.facts
    return Kept(
        rows,
        tuple(made for made in book.corrections() if made.student == student),
        tuple(f"{e.where}: {e.what}" for e in facts.attention if e.student == student),
        # An extension for several students names the others.
        tuple(
            msgspec.structs.replace(each, student=student, students=())
            for each in (*facts.policy.extension, *(given.rule for given in book.extensions()))
            if _names(each, student)
        ),
    )


def erase(book: Gradebook, student: str) -> dict[str, int]:
    """Erase all that a gradebook keeps about a student; return the number of rows erased, by table.

    Open the gradebook to write. After a kill, call this again to erase the rest. Raises GraderError or
    CorrectionsError; then either all rows are erased or none.
    """
    connection, path = book.tables.connection, book.folder / CORRECTIONS_FILE
    conditions = _conditions(connection)
    made = read_file(corrections_text(book.folder), path)
    places = [
        place for place, correction in enumerate(made.correction) if correction.student == student
    ]
    given = [
        place for place, extension in enumerate(made.extension) if extension.student == student
    ]
    if places:
        change_corrections(book.folder, (), places)
    if given:
        change_extensions(book.folder, (), given)
    result = book.folder / "results" / f"{safe_name(student)}.json"
    with writing(result):
        result.unlink(missing_ok=True)
    connection.execute("PRAGMA secure_delete = ON")
    with book.transaction():
        own = _own_digests(connection, student)
        counts = {}
        for table in sorted(conditions, key=_place):
            query = f"DELETE FROM {table} WHERE {conditions[table]}"  # noqa: S608
            if deleted := connection.execute(query, {"student": student}).rowcount:
                counts[table] = deleted
        # Another student may have handed in the same file.
        connection.execute(
            "DELETE FROM sources WHERE digest NOT IN (SELECT source FROM files)"
            " AND digest NOT IN (SELECT source FROM originals)"
        )
        _forget_in_facts(book, student, own - _digests(connection))
        if places or given:
            text = corrections_text(book.folder)
            left = book.corrections() or book.extensions()
            digest = hashlib.sha256(text.encode()).hexdigest() if left else ""
            book.change(corrections=digest)
    _overwrite(connection)
    return counts


def erase_everybody(book: Gradebook) -> int:
    """Erase all that a gradebook keeps about students, and the corrections; returns the number of students.

    The course, the rules of the policy and the tokens of staff stay. Open the gradebook to write. After a kill,
    call it again to erase the rest.

    Raises GraderError.
    """
    connection = book.tables.connection
    conditions = _conditions(connection)
    with writing(book.folder / CORRECTIONS_FILE):
        (book.folder / CORRECTIONS_FILE).unlink(missing_ok=True)
        for result in (book.folder / "results").glob("*.json"):
            result.unlink()
    connection.execute("PRAGMA secure_delete = ON")
    with book.transaction():
        count = len(everybody(book))
        for table in sorted(conditions, key=_place):
            # Tokens and sessions of staff are in the same tables.
            own = "role = 'student'" if conditions[table] == _BY_COLUMN["holder"] else "1"
            connection.execute(f"DELETE FROM {table} WHERE {own}")  # noqa: S608
        connection.execute("DELETE FROM sources")
        named = book.facts.named_policy
        if named is not None:
            rules = msgspec.structs.replace(named.rules, extension=())
            named = msgspec.structs.replace(named, rules=rules)
        book.change(
            attention=(),
            totals={},
            totals_before={},
            mark_drafts=(),
            policy=msgspec.structs.replace(book.facts.policy, extension=()),
            named_policy=named,
            corrections="",
        )
    _overwrite(connection)
    return count


def everybody(book: Gradebook) -> list[str]:
    """Return the ids of all students about whom a gradebook keeps something, even if only a token."""
    connection, ids = book.tables.connection, {student.id for student in book.students()}
    for table, condition in _conditions(connection).items():
        if condition == _BY_COLUMN["holder"]:
            query = f"SELECT holder FROM {table} WHERE role = 'student'"  # noqa: S608
            ids |= {holder for (holder,) in connection.execute(query)}
    return sorted(ids)


def _overwrite(connection: sqlite3.Connection) -> None:
    """Write the file anew without free pages, and empty the log."""
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def beside(folder: Path) -> list[Path]:
    """Return the files and folders beside a gradebook that `erase` does not clean, sorted by name."""
    return sorted(path for path in folder.iterdir() if not _OWN_FILES.fullmatch(path.name))


def _conditions(connection: sqlite3.Connection) -> dict[str, str]:
    """Map tables to the condition for a student's rows; raises GraderError for an unknown table."""
    conditions, unknown = {}, []
    tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    for (table,) in connection.execute(tables).fetchall():
        if table in _ABOUT_NOBODY:
            continue
        columns = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
        by_column = (condition for name, condition in _BY_COLUMN.items() if name in columns)
        condition = _BY_TABLE.get(table) or next(by_column, None)
        if condition is None:
            unknown.append(table)
        else:
            conditions[table] = condition
    if unknown:
        raise GraderError(
            f"The gradebook has a table that this grader does not know ({', '.join(sorted(unknown))}), which "
            "may be about the student: use the grader that made it. Nothing was changed."
        )
    return conditions


def _place(table: str) -> int:
    return _LAST.index(table) + 1 if table in _LAST else 0


def _own_digests(connection: sqlite3.Connection, student: str) -> set[str]:
    files = f"SELECT source FROM files WHERE {_BY_COLUMN['attempt']}"  # noqa: S608
    return {digest for (digest,) in connection.execute(files, {"student": student})}


def _digests(connection: sqlite3.Connection) -> set[str]:
    return {digest for (digest,) in connection.execute("SELECT DISTINCT source FROM files")}


def _forget_in_facts(book: Gradebook, student: str, digests: set[str]) -> None:
    """Remove a student from the facts, and the drafts of marks for files with these digests."""
    facts = book.facts
    named = facts.named_policy
    if named is not None:
        named = msgspec.structs.replace(named, rules=_without(named.rules, student))
    book.change(
        attention=tuple(entry for entry in facts.attention if entry.student != student),
        totals={name: points for name, points in facts.totals.items() if name != student},
        totals_before={n: points for n, points in facts.totals_before.items() if n != student},
        mark_drafts=_drafts_without(facts.mark_drafts, student, digests),
        policy=_without(facts.policy, student),
        named_policy=named,
    )


def _drafts_without(
    drafts: Iterable[MarkDraft], student: str, digests: set[str]
) -> tuple[MarkDraft, ...]:
    """Return the drafts without a student, and without files that have these digests.

    The draft of a team's file remains for the others.
    """
    left = []
    for draft in drafts:
        others = tuple(name for name in draft.students if name != student)
        if draft.digest in digests or (draft.students and not others):
            continue
        left.append(msgspec.structs.replace(draft, students=others))
    return tuple(left)


def _names(extension: Extension, student: str) -> bool:
    return student in (extension.student, *extension.students)


def _without(rules: Rules, student: str) -> Rules:
    """Return the rules without a student's extensions; shared ones remain for the others."""
    left = []
    for each in rules.extension:
        if _names(each, student):
            others = tuple(name for name in each.students if name != student)
            own = "" if each.student == student else each.student
            if not (others or own or each.section or each.team):
                continue
            each = msgspec.structs.replace(each, student=own, students=others)
        left.append(each)
    return msgspec.structs.replace(rules, extension=tuple(left))
