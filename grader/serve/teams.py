"""The teams of the class list of this server, and the exercises that a team hands in once."""

from __future__ import annotations

from collections.abc import Iterable

from grader.course.manifest import Course
from grader.results import StudentInfo


class Teams:
    """The teams of a class; without a team, a student hands in alone."""

    def __init__(self, course: Course, students: Iterable[StudentInfo]) -> None:
        self._exercises = {
            name
            for assignment in course.assignments
            if assignment.teams
            for name in assignment.exercises
        }
        self._teams: dict[str, list[StudentInfo]] = {}
        self._team_of: dict[str, str] = {}
        for student in sorted(students, key=lambda student: student.id):
            if team := student.team:
                self._teams.setdefault(team, []).append(student)
                self._team_of[student.id] = team

    def hands_in(self, exercise: str) -> bool:
        """Whether a file for an exercise counts for the whole team."""
        return exercise in self._exercises

    def mates(self, student: str) -> list[StudentInfo]:
        """Return the other students in a student's team."""
        team = self._teams.get(self._team_of.get(student, ""), [])
        return [mate for mate in team if mate.id != student]
