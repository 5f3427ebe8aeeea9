"""The walls around student code.

`table` names every wall, in order; `wall` has the structs. `confinement` raises them around a sandbox, as the
operating system allows. `survey` tries them out for `grade doctor`, and has the levels.

Around the fork server: `bubblewrap`, and the control group of `resources`. Entered by it: `namespaces`, with
`private_root`. In each sandbox: `namespaces`, `resources`, `landlock`, `seccomp`, on `syscalls`.
"""
