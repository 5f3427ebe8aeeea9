"""The report: static pages about a class that open from a disk, with one page to send to each student.

`site.py` goes through the entries once: it writes both pages of a student, adds a row to the tally (`tally.py`,
which also counts mistakes), and forgets the entry. The pages of the class are made from the tally
(`overview.py`, and `triage.py` for students to help first). Every text is a stranger's: `render.py` escapes it
and makes invisible characters visible.
"""

from __future__ import annotations

from grader.exports.report.site import write_report

__all__ = ["write_report"]
