"""A student's own data, as a zip of readable files: all that a gradebook keeps about the student.

The zip is for the student, so verdicts show only as much of hidden tests as the course discloses.
"""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import msgspec

from grader.exports.disclosure import disclosed, disclosed_result
from grader.exports.files import open_export
from grader.gradebook import Gradebook
from grader.gradebook.personal import Kept, kept_about
from grader.gradebook.standing import hide_hints, result_of
from grader.judge.scoring import with_extra_credit
from grader.results import StudentInfo, SubmissionInfo, to_json
from grader.submissions import safe_name
from grader.text import utc

_README = """\
Data about {student} in the gradebook of {title}, as of {time}.

records.json   every row of its tables, and corrections, extensions and notes of staff about this student
result.json    the points that count, as the student may read them
attempts/      each attempt: the files as handed in, and the verdict as the student may read it
drafts/        drafts in the editor of the server, and their last versions

Times are in UTC; numbers such as 1796083200.0 are seconds since 1970. Of a token, only a digest is kept. Not
included: replaced verdicts, values of hidden tests that the course does not disclose, and files outside of the
gradebook, such as reports, exports, backups and mails.
"""


def write_personal_data(book: Gradebook, student: StudentInfo, path: Path) -> int:
    """Write all that a gradebook keeps about a student to a zip; return the number of its files.

    Raises GraderError if the gradebook has a table of a newer grader, or the zip cannot be written.
    """
    kept = kept_about(book, student.id)
    files = {"records.json": _records(kept)}
    if (entry := book.entry_of(student.id)) is not None:
        files["result.json"] = to_json(disclosed(entry).result)
    files |= _attempts(book, student) | _drafts(kept)
    told = {"title": book.title or "a course", "student": student.id, "time": utc()}
    files["README.txt"] = _README.format(**told).encode()
    with open_export(path) as out, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            archive.writestr(name, files[name])
    return len(files)


def _records(kept: Kept) -> bytes:
    def readable(row: dict[str, Any]) -> dict[str, Any]:
        # Bytes are sources and verdicts, which are files of their own.
        return {name: value for name, value in row.items() if not isinstance(value, bytes)}

    rows = {table: [readable(row) for row in found] for table, found in kept.rows.items()}
    extensions = [
        {
            name: value if isinstance(value, str | tuple) else str(value)
            for name, value in msgspec.structs.asdict(extension).items()
            if value
        }
        for extension in kept.extensions
    ]
    content = {
        "tables": rows,
        "corrections": kept.corrections,
        "extensions": extensions,
        "to_look_at": kept.attention,
    }
    return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"


def _attempts(book: Gradebook, student: StudentInfo) -> dict[str, bytes]:
    files, work, facts = {}, book.work(student), book.facts
    for attempt in work.attempts:
        folder = f"attempts/{attempt.number:04}"
        for exercise, file in book.files_of(attempt.id).items():
            if file.source is not None:
                files[f"{folder}/{safe_name(exercise)}.py"] = file.source
        verdicts = [
            verdict
            for by_attempt in work.verdicts.values()
            if (verdict := by_attempt.get(attempt.id)) is not None
        ]
        if verdicts:
            shown = (hide_hints(v.result, facts.without_hints) for v in verdicts)
            results = with_extra_credit(shown, facts.extra_credit)
            submission = SubmissionInfo(student.id, str(attempt.number))
            result = result_of(facts.course, submission, results, verdicts)
            files[f"{folder}/verdict.json"] = to_json(disclosed_result(result))
    return files


def _drafts(kept: Kept) -> dict[str, bytes]:
    files = {}
    for row in kept.rows.get("drafts", ()):
        files[f"drafts/{safe_name(row['exercise'])}.py"] = zlib.decompress(row["deflated"])
    for row in kept.rows.get("draft_versions", ()):
        name = f"{safe_name(row['exercise'])}-version-{row['number']}"
        files[f"drafts/{name}.py"] = zlib.decompress(row["deflated"])
    return files
