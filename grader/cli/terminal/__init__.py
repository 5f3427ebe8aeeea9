"""The output of the commands in a terminal.

`console` opens one and has the marks. `result` shows a result to a student, `student_result` to an
instructor, both of `blocks`; `class_summary` a batch, `policy` the rules of a class, `corrections` points that
a person changed, `course` exercises, hints, proofs and walls, `mutation` the mutants of a solution, `audit` an
audit. `progress` is the line on stderr while a command works.
"""
