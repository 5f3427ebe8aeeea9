"""The walls around student code.

`table` names every wall, in order; `wall` has the structs. `confinement` raises them around a sandbox, for the
system at hand: `linux`, `posix` or `windows`. `survey` tries them out for `grade doctor`, and has the levels.

Around the fork server: `bubblewrap`, `cgroups`. Entered by it: `namespaces`, with `private_root`. In each
sandbox: `namespaces`, `rlimits`, `landlock`, `seccomp`, on `syscalls`.
"""
