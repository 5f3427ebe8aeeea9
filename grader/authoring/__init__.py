"""A course in the making, for its author.

`scaffold` begins a course, an exercise or an assignment from templates; `stub` writes the stub that a solution
makes. `verify` proves the suites by right and wrong answers (`grader.course.mutants`), `caught` writes which
tests catch a wrong answer, and `references` finds names that lead nowhere; `mutation` finds mechanical changes
of a solution that no test sees, and `forgeries` says what forged replies earn. `release` hands a course out to
students, `gradescope_package` to platforms that run a grader, with what tests saw of wrong answers
(`observations`); `part` cuts out the exercises of an assignment for both.
"""
