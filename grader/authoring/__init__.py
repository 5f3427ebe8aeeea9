"""A course in the making, for its author.

`scaffold` begins a course, an exercise or an assignment from templates; `consistency` writes the stub that a
solution makes, and finds what no longer agrees. `verify` proves the suites by right and wrong answers
(`grader.course.mutants`), and by `junk`, code that does no work; `mutation` finds mechanical changes of a
solution that no test sees, and `forgeries` says what forged replies earn. `release` hands a course out to
students, `gradescope_package` to platforms that run a grader, with what tests saw of wrong answers
(`observations`); `part` cuts out the exercises of an assignment for both, and `trial` grades stubs and
solutions by what is about to go out.
"""
