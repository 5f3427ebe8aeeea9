"""A student's own folder: its files, the student's progress, the next step, and plots.

`workspace` is the folder, `progress` its memory, `next_step` the advice after a result, and `plots` has the
pictures. `blocks` is the text about a result, for every renderer, and `client` talks to `grade serve`.
"""
