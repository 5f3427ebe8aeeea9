"""Code that runs in the sandbox beside the student's.

`worker` answers the judge's calls. `guard` watches for forbidden operators and names, and `absent` makes them
raise. `observation` reports the side effects of a call. `stand_in` replaces functions that were found wrong by
the solution's. `interpreter` changes Python around the student's module, and `reports` tells the judge about
events that lead out of it. `warmup` runs once, before any fork.
"""
