"""The formats of `grade export`, a module for each platform or kind.

`FORMATS` of a module declares each format with its purpose, its options, and its writer. The command, its help
and the tests find it by its name in the table of `grader.exports`.
"""
