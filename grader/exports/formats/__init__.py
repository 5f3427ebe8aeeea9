"""The formats of `grade export`, a module for each platform or kind.

`tables` has csv, nbgrader and jsonl, `feedback` the texts for students, `github` the summary and annotations,
and `autograders` Gradescope and PrairieLearn. `canvas`, `moodle`, `classroom` and `junit` have the formats of
these names.
`FORMATS` of a module declares each format with its purpose, its options, and its writer. The command, its help
and the tests find it by its name in the table of `grader.exports`.
"""
