"""The course in `plain/` is test data. Pytest collects nothing in it."""

collect_ignore = ["plain"]
