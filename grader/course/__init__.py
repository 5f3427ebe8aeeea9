"""A course: its manifest, the tests that its suites declare, the digest of what judges, and the pack of it all.

A module each: `manifest`, `assignments` (what is handed out together; `grader.toml` reads and writes both),
`syntax` (syntax trees), `stub` (what the markers of a solution make), `suite`, `mutants` (wrong answers and
what their students read), `caught` (which tests catch them), `names` (those that are taken), `digest`, `pack`.
"""
