"""Watching a student work: a save is answered by the result of the exercise saved, a key by its meaning.

Theory of operation. One thread tells of saves (`saves.py`), one of keys (`keys.py`), one judges (asked by
`orders.py`); all of them put events into one queue, and `loop.py` takes them out, so that the loop alone
knows the view and has it drawn (`screen.py`; for an editor, `terminal/errors.py`). Only a save of its file, or
a key, turns to another exercise. The command, which puts all of them together, is in `command.py`.
"""
