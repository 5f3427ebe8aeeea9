"""Sandboxes: the processes that run student code.

The judge's side: `client` talks to one sandbox, and `stack` says at which line it was; `forking` starts the
fork server and asks it for sandboxes; `spawning` starts a sandbox where nothing can be forked. The programs:
`forkserver` and `spawned`, both with `surroundings`. What a sandbox does is in `inside`, what it is asked and
answers in `wire`, and what it is kept from in `walls`.
"""
