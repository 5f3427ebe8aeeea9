"""The gradebook: every verdict on every attempt, kept the moment that it is there."""

from grader.gradebook.book import Attempt, Gradebook, Replaced

__all__ = ["Attempt", "Gradebook", "Replaced"]
