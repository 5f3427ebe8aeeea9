"""Watch a student work: answer a save with its result, and a key with its action.

Theory of operation. One thread reports saves, one reports keys (`inputs.py`), and one judges. Each calls
`WatchLoop.later`, and `loop.py` makes these calls one by one, so that only the loop changes the view and has it
drawn (`screen.py`; for an editor, `terminal/errors.py`). Only saving another exercise's file, or a key, turns
to that exercise. The command in `command.py` puts the parts together.
"""
