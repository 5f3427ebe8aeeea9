"""The output of the commands in a terminal.

`console` opens one and has the marks. `result` shows a result to a student, `student_result` to an
instructor, with what students ask to be looked at again; `class_summary` a batch, `groups` alike files and
failures without a sentence, `policy` the rules of a class and corrections, `course` exercises, hints and walls,
`proofs` what `grade verify` and `grade audit` found; `errors` has lines for editors. `progress` is the line on
stderr while a command works.
"""
