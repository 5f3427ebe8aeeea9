"""A course: its manifest, the tests that its suites declare, its digest, and the pack that carries it."""
