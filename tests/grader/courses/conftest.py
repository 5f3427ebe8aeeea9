"""What stands here beside the tests is a course to test on, and submissions: pytest collects neither."""

collect_ignore = ["plain"]
