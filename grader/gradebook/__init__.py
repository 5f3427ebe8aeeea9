"""The gradebook: a SQLite file that keeps every verdict on every attempt at once.

`batch` grades a class, on this machine or on a `cluster`. `refusals` keeps other courses and doubled students
out. `intake` keeps submissions and decides which files need a verdict, and `verdicts` finds or keeps it, by its
`verdict_key`. `book` is the gradebook, opened to read or to write; `database` opens its file with the `facts`
and `tables`, and `migration` brings it up to date. `work` has all attempts of a student. `policy` chooses the
attempt that counts and its points (`policy_file` reads it, `times` are in it). `corrections` are a person's
changes (`adjusting` makes them, `extending` gives more time, `corrections_file` reads and writes the file).
`standing` applies both.

`review` lists things that a person should look at, and `file_review` those that depend on a student's other
attempts. `marking` has points by a rubric, and `requests` has regrade requests. `mistakes` groups failures
without a sentence, and `similarity` finds alike files. `anonymous` reads a gradebook without names, and `term`
adds up the gradebooks of a term. `personal` finds and erases all data about one student, `retention` says how
long a class is kept, and `backup` makes and restores copies of a gradebook.

For a server, `queue` has its submissions and jobs, `drafts` the code that students write in its editor,
`tokens` the people who may sign in, and `sessions` the people who signed in elsewhere. `platforms` has LTI
platforms and their launches, `invitations` the platforms that register themselves, `tool_key` the server's key
for them, and `pushed` the points that they got. `outbox` has the mail to students.
"""

from grader.gradebook.book import Gradebook
from grader.gradebook.work import Attempt, Replaced

__all__ = ["Attempt", "Gradebook", "Replaced"]
