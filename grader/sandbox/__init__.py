"""Sandboxes: the processes that run student code.

On the judge's side, `client` talks to one sandbox. `forking` starts the fork server, the program `forkserver`,
and requests sandboxes from it. `spawning` starts a sandbox on systems that cannot fork, and is also its
program. `surroundings` prepares the environment of both programs, and `private` gives the code beside a
student's its own builtins. `inside` runs in a sandbox, `wire` has the messages to and from it, and `walls`
confines it.
"""
