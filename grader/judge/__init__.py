"""Judging: the process that holds the suites, and never runs what it judges.

For the process that grades: `pool` owns judges and has them judge, `warm` keeps one for a student who is
watched, `process` is a judge from both sides, and `assignment` has what the two say to each other. `preloading`
knows what sandboxes need imported beforehand; `cache` keeps what judges learn for this user.

In the judge: `run` calls the tests of the suites and `suite_run` says what the end of each means (one of
`outcomes` or a fault of the grader); a `text` keeps its words apart from the values of the run. `solution`
runs the course's own solution in the same tests, `recognition` finds the known mistake that does the same,
`modes` the global mode that a file left on. A test gets `student`, whose calls go through a `session`, which
divides the time, and `remote` makes modules and gradients of the answers; `probe` finds what is wrong in a
probe's own file, and `reports` says what a sandbox told besides. `scoring` computes the points, `checks` is
what suites import, `plain` has pytest run suites, and `pytest_report` writes reports as pytest does. For
`grade verify`, `forgery` answers in the place of a sandbox.
"""
