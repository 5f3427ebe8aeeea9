"""Code that runs in the sandbox, beside the student's.

`worker` answers the judge's calls, `guard` watches for what is not allowed, `observation` reports how a call
left what it was given, `imports` what was imported late, `endings` where it was when it ended. `reflection`
refuses names that are put together as the code runs. `warmup` is done once, before any fork.
"""
