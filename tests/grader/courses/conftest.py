"""Courses to test on, and submissions, are here beside the tests: pytest collects neither."""

collect_ignore = ["plain"]
