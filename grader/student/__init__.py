"""A student's own folder: what is done in it, what to do next, and the pictures of it.

`workspace` is the folder, `progress` what it remembers, `advice` the next step; `plots` are the pictures.
`blocks` is the text about a result, for every renderer, and `server` the client of `grade serve`.
"""
