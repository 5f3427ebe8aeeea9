"""Judging: the process that holds the suites and never runs a student's code.

In the process that grades, `pool` owns judges and gives them work, and `warm` keeps one judge for
`grade watch`. `process` is a judge seen from both sides, and `assignment` has the messages between them.
`preloading` lists the modules that sandboxes import beforehand. `cache` keeps their findings for this user,
under a digest of the files that decide (`own_code`).

In the judge, `run` calls the tests of the suites, and `suite_run` interprets the end of each: one of
`outcomes`, or a fault of the grader; `advice` is about errors of a student's code. `text` keeps the words of a
message apart from the values in it. `solution` runs the course's own solution in the same tests, `recognition`
finds the known mistake in an answer, and `modes` the global mode that a file left on. A test gets `student`,
whose calls go through a `session`, which divides the time, and a `student_file` finds the place and the meaning
of errors. `remote` makes modules and gradients of the replies, `probe` finds mistakes in a probe's file, and
`reports` explains the events that a sandbox reported. `scoring` computes the points. Suites import `checks`.
`plain` has pytest run suites, and `pytest_report` writes reports in pytest's format.
For `grade verify`, `forgery` replaces a sandbox.
"""
