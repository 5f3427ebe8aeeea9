"""The walls around student code.

`table` lists every wall in order; `wall` has the structs. `confinement` raises them around a sandbox, as far as
the operating system allows. `survey` tries them out for `grade doctor`, and has the levels.

`bubblewrap` and the control group of `resources` are around the fork server, which enters `namespaces` with
`private_root`. Each sandbox raises `namespaces`, `resources`, `landlock` and `seccomp`, with `syscalls`.
"""
