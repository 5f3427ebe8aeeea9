"""Output of the commands.

`console` opens a console and has the marks. `result` shows a result to a student, `student_result` to an
instructor, with regrade requests. `class_summary` shows a batch, `groups` alike files and unnamed mistakes,
`policy` the rules of a class and corrections, `push` the changes for a platform, `mail` the mails to students,
`course` exercises, hints and walls, `proofs` the results of `grade verify` and `grade audit`. `errors` writes
lines for editors. `progress` is the line on stderr while a command works.
"""
