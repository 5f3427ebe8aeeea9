"""Judging: the process that holds the suites, and never runs what it judges."""
