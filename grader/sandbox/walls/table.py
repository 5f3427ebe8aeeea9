"""The table of all walls: outermost first, and those of a sandbox in the order in which it raises them.

A new wall is an entry here and a module with its functions; confinement, `grade doctor` and the levels
read the table.
"""

from __future__ import annotations

from grader.sandbox.walls import (
    bubblewrap,
    landlock,
    namespaces,
    resources,
    seccomp,
    syscalls,
)
from grader.sandbox.walls.wall import Level, Wall

WALLS: tuple[Wall, ...] = (
    Wall(
        "control_group",
        "memory and processes of all sandboxes together are bounded",
        level=None,
        why_not=resources.why_no_group,
    ),
    Wall(
        "bubblewrap",
        "student code sees no file of yours, no other process and no network",
        Level.FULL,
        why_not=bubblewrap.why_not,
    ),
    Wall(
        "process_group",
        "all that student code starts is ended with it",
        Level.LIMITS,
        resources.lead_group,
    ),
    Wall(
        "private_root",
        "the same as bubblewrap for files, made by the grader itself",
        Level.NAMESPACES,
        lambda site: "private_root" in site.plan.outer_walls,
        namespaces.why_not,
    ),
    Wall(
        "pid_namespace",
        "it sees no other process, and none of its own outlives it",
        Level.NAMESPACES,
        namespaces.is_first_process,
        namespaces.why_not,
    ),
    Wall(
        "process_limit",
        "it cannot fill the machine with processes or threads",
        # Not lower: for root it takes Linux 6.14.
        Level.FULL,
        namespaces.count_processes,
        namespaces.why_not_counted,
    ),
    Wall(
        "mount_namespace",
        "its changes to the file system are its own",
        Level.NAMESPACES,
        namespaces.own_mounts,
        namespaces.why_not,
    ),
    Wall(
        "ipc_namespace",
        "it shares no memory with other programs",
        Level.NAMESPACES,
        namespaces.own_memory,
        namespaces.why_not,
    ),
    Wall(
        "network_namespace",
        "it reaches no network, not even this machine's own services",
        Level.NAMESPACES,
        namespaces.own_network,
        namespaces.why_not,
    ),
    Wall(
        "private_scratch",
        "what it writes is bounded, unseen by others, and gone with it",
        Level.NAMESPACES,
        namespaces.own_folders,
        namespaces.why_not,
    ),
    Wall(
        "user_namespace",
        "it holds no right of yours, not even as root",
        Level.NAMESPACES,
        namespaces.own_user,
        namespaces.why_not,
    ),
    Wall(
        "rlimits",
        "processor time, memory, file size and open files are bounded",
        Level.LIMITS,
        resources.limit,
    ),
    Wall(
        "capabilities",
        "it holds no administrator's right",
        Level.KERNEL,
        syscalls.drop_capabilities,
    ),
    Wall(
        "no_new_privs",
        "it cannot gain rights by starting a program, and other processes of its user cannot look into it",
        Level.KERNEL,
        syscalls.gain_no_privileges,
    ),
    Wall(
        "landlock",
        "it reads the Python environment and writes its own folder, nothing else",
        Level.KERNEL,
        landlock.restrict_files,
        landlock.why_not,
    ),
    Wall(
        "seccomp",
        "it starts no program and no process, opens no socket, touches no other process",
        Level.KERNEL,
        seccomp.filter_calls,
        seccomp.why_not,
    ),
)
