"""A course: its manifest, the tests that its suites declare, the digest of what judges, and the pack of it all.

A module each: `manifest`, `suite`, `digest`, `pack`.
"""
