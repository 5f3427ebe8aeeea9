"""The probe that runs beside the student's code: it contains nothing that students must not see."""


def count(student, how_many):
    return student.steps(how_many)
