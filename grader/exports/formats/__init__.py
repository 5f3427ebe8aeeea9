"""The formats of `grade export`, those of one platform or one kind in a module.

`FORMATS` of a module says what each of its formats is for, which options it reads, and how it is written. The
command, its help and the tests find it by its name in the table of `grader.exports`.
"""
