"""The output of the commands in a terminal.

`console` opens one and has the marks. `result` shows a result to a student, `student_result` to an
instructor, both of `blocks`; `class_summary` a batch, `alike` alike files, `unnamed` failures without a
sentence, `requests` what students ask to be looked at again, `policy` and `corrections` the rules of a class,
`course` exercises, hints and walls, `proofs` what `grade verify` found, `audit` an audit; `errors` has lines
for editors. `progress` is the line on stderr while a command works.
"""
