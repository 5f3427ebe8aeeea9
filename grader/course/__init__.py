"""A course: its manifest, the tests that its suites declare, the digest of all that judges, and its pack.

Modules: `manifest`; `assignments` (exercises handed out together; `grader.toml` reads and writes both);
`syntax` (syntax trees); `stub` (made from a solution's markers); `suite` (the tests of one file); `suites`
(the tests of an exercise); `mutants` (wrong answers and their sentences); `caught` (the tests that catch
them); `names` (that are already taken); `digest`; `pack`.
"""
