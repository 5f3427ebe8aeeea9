"""Sandboxes: the processes that run student code, and the walls around them.

The judge's side. `client` talks to one sandbox. `forking` starts the fork server and asks it for sandboxes;
`spawning` starts a sandbox where nothing can be forked.

The wire. `messages` are what is asked and answered, `values` what may be in it; `packing` writes the values,
`unpacking` and `map_keys` read them from an enemy; `channel` has the frames, and the theory of it all.
`demands` are what the fork server is asked.

Inside. `forkserver` and `spawned` are the programs, `surroundings`, `warmup` and `hugepages` their start,
`removal` their end. `worker` answers the calls: `guard` watches what they use, `changes` what they change,
`graphs` keeps their gradients, `tracebacks` tells their errors.

The walls. `confinement` raises them in order, with `namespaces`, `private_root`, `rlimits`, `landlock` and
`seccomp` on `syscalls`; `bubblewrap` and `cgroups` stand around the fork server. `survey` says which hold
here, `levels` which may be asked for.
"""
