"""Watching a student work: a save is answered by the result of the exercise saved, a key by its meaning.

Theory of operation. One thread reports saves and one keys (`inputs.py`), one judges. What they call, `loop.py`
calls one by one (`WatchLoop.later`), so that the loop alone knows the view and has it drawn (`screen.py`; for
an editor, `terminal/errors.py`). Only a save of its file, or a key, turns to another exercise. The command,
which puts all of them together, is in `command.py`.
"""
