"""Watching a student work: a save is answered by the result of the exercise saved, a key by its meaning.

Theory of operation. One thread tells of saves (`saves.py`), one of keys (`keys.py`), one judges (`warm.py`,
asked by `orders.py`); all of them put events (`events.py`) into one queue, and `loop.py` takes them out, so
that nothing but the loop knows what is shown (`view.py`) and draws it (`screen.py`). Nothing ever moves on to
another exercise but a save of its file, or a key.
"""
