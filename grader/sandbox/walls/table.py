"""The table of all walls, outermost first; a sandbox raises its walls in this order.

For a new wall, add an entry here and a module with its functions. Confinement, `grade doctor` and the levels
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
        "processes that student code starts are ended with it",
        Level.LIMITS,
        resources.lead_group,
    ),
    Wall(
        "private_root",
        "it sees no file of yours, like behind bubblewrap, but made by the grader itself",
        Level.NAMESPACES,
        lambda site: "private_root" in site.plan.outer_walls,
        namespaces.why_not,
    ),
    Wall(
        "pid_namespace",
        "it sees no other process, and its own processes end with it",
        Level.NAMESPACES,
        namespaces.is_first_process,
        namespaces.why_not,
    ),
    Wall(
        "process_limit",
        "it cannot fill the machine with processes or threads",
        # Only the highest level, since for root it needs Linux 6.14.
        Level.FULL,
        namespaces.count_processes,
        namespaces.why_not_counted,
    ),
    Wall(
        "mount_namespace",
        "others do not see its changes to the file system",
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
        "its files are bounded, unseen by others, and removed with it",
        Level.NAMESPACES,
        namespaces.own_folders,
        namespaces.why_not,
    ),
    Wall(
        "user_namespace",
        "it has none of your rights, not even as root",
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
        "it has no administrator's rights",
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
