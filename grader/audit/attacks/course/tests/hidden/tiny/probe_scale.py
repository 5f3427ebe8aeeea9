"""What runs beside the student's code: it holds nothing that is not theirs to see."""


def count(student, how_many):
    return student.steps(how_many)
