"""The report: a class as static pages that open from a disk, with one page for each student to get.

`site.py` goes through the entries once: it writes both pages of a student, adds a row to the tally
(`tally.py`, in which mistakes are counted), and forgets the entry. From the tally come the pages of the class
(`overview.py`, and `triage.py` for whom to help first). Every text is a stranger's: `render.py` escapes it and
shows what is invisible in it.
"""

from __future__ import annotations

from grader.exports.report.site import write_report

__all__ = ["write_report"]
