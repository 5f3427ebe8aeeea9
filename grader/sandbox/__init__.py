"""Sandboxes: the processes that run student code.

The judge's side: `client` talks to one sandbox; `forking` starts the fork server, the program `forkserver`, and
asks it for sandboxes; `spawning` starts a sandbox where nothing can be forked, and is its program, too. Both
programs have their `surroundings`, and what runs beside a student's code `private` builtins. What a sandbox
does is in `inside`, what it is asked and answers in `wire`, and what it is kept from in `walls`.
"""
