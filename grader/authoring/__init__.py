"""A course in the making, for its author.

`scaffold` begins a course, an exercise or an assignment from templates. `consistency` writes the stub that a
solution makes, and finds files that no longer agree. `verify` proves the suites by right and wrong answers
(`grader.course.mutants`), and by `junk`, code that does no work; `mutation` finds mechanical changes of a
solution that no test sees, and `forgeries` measures the points of forged replies. `release` hands a course
out to students (`handout` zips it for a server), `gradescope_package` to platforms that run a grader, with
observations of wrong answers (`observations`). For both, `part` cuts out the exercises of an assignment, and
`trial` grades stubs and solutions first.
"""
