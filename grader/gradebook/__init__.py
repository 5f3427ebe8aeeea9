"""The gradebook: a SQLite file in which every verdict on every attempt is kept the moment that it is there."""

from grader.gradebook.book import Attempt, Gradebook, Replaced
from grader.gradebook.keeper import Keeper

__all__ = ["Attempt", "Gradebook", "Keeper", "Replaced"]
