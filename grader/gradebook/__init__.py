"""The gradebook: a SQLite file in which every verdict on every attempt is kept the moment that it is there.

`batch` grades a class, on this machine or on a `cluster`, and finds verdicts again by their `verdict_key`;
`asking` says which files need one, `belonging` refuses what is of another class. `keeper` writes the
gradebook, `book` reads it; `tables` is its file, `cells` are the values in it. `mistakes` groups what no
sentence explains. `policy` says by its `rules` which attempt counts and how much of it (`policy_file` reads
them, `policy_words` says what is wrong in it, `times` are those in it), `corrections` are what a person
changed, and `standing` is what counts by both of the `work` of a student. `review` lists what a person should
look at, `odd_code` among it; `similarity` finds alike files. `merge` makes one gradebook of several,
`term` adds up those of a term, and `anonymous` reads one without names.
"""

from grader.gradebook.book import Gradebook, Replaced
from grader.gradebook.keeper import Keeper
from grader.gradebook.work import Attempt

__all__ = ["Attempt", "Gradebook", "Keeper", "Replaced"]
