"""A course in the making, for its author.

`scaffold` begins a course or an exercise from the templates (`template`), `stub` makes a stub from the
solution. `verify` proves the suites by right and wrong answers (`mutants`), also those that laws bring
(`saboteurs`), finds names that lead nowhere (`references`), and solutions with a mechanical change that no test
sees (`mutation`). `release` hands a course out to students, `gradescope_package` to platforms that run a grader.
"""
