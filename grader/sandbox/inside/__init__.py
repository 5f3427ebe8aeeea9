"""Code that runs in the sandbox, beside the student's.

`worker` answers the judge's calls, `guard` watches for what is not allowed, and `absent` puts it out of order.
`observation` reports how a call left what it was given. `stand_in` has the solution
answer for functions that were found wrong. `interpreter` changes Python around the student's
module, `reports` has the judge told of what leads out of it, and `warmup` is done once, before any fork.
"""
