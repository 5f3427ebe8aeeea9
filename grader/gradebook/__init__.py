"""The gradebook: a SQLite file in which every verdict on every attempt is kept the moment that it is there.

`batch` grades a class, on this machine or on a `cluster`, and finds verdicts again by their `verdict_key`;
`intake` takes in what was handed in and decides which files need one. `book` is the gradebook, opened to read
or to write; its `facts` and `tables` lie in the file, which `migration` brings up to date. `work` is all that a
student handed in, `policy` says by its rules which attempt counts and how much of it (`policy_file` reads them,
`times` are those in it), `corrections` are what a person changed (`corrections_file` reads and writes them),
and `standing` is what counts by both. `review` lists what a person should look at; `marking` has the points
that a person gives by a rubric, `requests` what students ask to be looked at again; `mistakes` groups what no
sentence explains, and `similarity` finds alike files. `anonymous` reads a gradebook without names, and `term`
adds up those of a term. `queue` is what a server keeps in the same file, and `drafts` what students write in
its page.
"""

from grader.gradebook.book import Gradebook
from grader.gradebook.work import Attempt, Replaced

__all__ = ["Attempt", "Gradebook", "Replaced"]
