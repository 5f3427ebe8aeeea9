"""The system-call filter: a list of allowed calls; every other call fails with an ordinary error.

A list of forbidden calls would need additions with every new kernel. A refused call fails with EPERM instead of
killing the process, so student code gets a PermissionError, which can be explained. A call newer than this list
fails with ENOSYS: then the C library uses another call, while with EPERM it gives up. clone3 also fails with
ENOSYS, since a filter cannot see its flags.

Building a filter takes tens of milliseconds, and loading its bytes less than one. So the fork server compiles
it once, and each sandbox loads it. A sandbox may signal only itself: the bytes have a placeholder for the
process's own id, which `load` replaces.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import importlib
import os
import struct
import tempfile
from typing import Any

from grader.sandbox.walls import syscalls
from grader.sandbox.walls.wall import Limits, Site

# The placeholder for the process's own id in the compiled bytes; far above any real pid.
_OWN_PID = 0x5AFE_91D1
# Calls from this number on are not in the lists below; 451 is from Linux 6.5.
_FIRST_UNKNOWN = 451

_FILES = """
read readv write writev pread64 preadv preadv2 pwrite64 pwritev pwritev2 open openat openat2 creat
close close_range stat fstat lstat newfstatat fstatat64 statx access faccessat faccessat2 lseek
_llseek getdents getdents64 getcwd chdir fchdir rename renameat renameat2 mkdir mkdirat rmdir unlink
unlinkat link linkat symlink symlinkat readlink readlinkat truncate ftruncate fallocate fsync
fdatasync sync_file_range flock fadvise64 readahead copy_file_range sendfile splice tee umask statfs
fstatfs getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr dup dup2 dup3 pipe pipe2
"""
_MEMORY = """
mmap munmap mprotect mremap madvise brk msync mincore mlock mlock2 munlock mlockall munlockall
membarrier get_mempolicy set_mempolicy mbind pkey_alloc pkey_free pkey_mprotect
"""
_TIME = """
clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time times getitimer setitimer
alarm timer_create timer_settime timer_gettime timer_getoverrun timer_delete timerfd_create
timerfd_settime timerfd_gettime
"""
_THREADS = """
futex futex_waitv set_robust_list get_robust_list set_tid_address gettid arch_prctl rseq sched_yield
sched_getaffinity sched_getparam sched_getscheduler sched_get_priority_max sched_get_priority_min
sched_rr_get_interval sched_getattr getpriority ioprio_get exit exit_group wait4 waitid
rt_sigaction rt_sigprocmask rt_sigpending rt_sigtimedwait rt_sigsuspend rt_sigreturn sigaltstack
pause restart_syscall signalfd signalfd4
"""
_QUESTIONS = """
getpid getppid getuid geteuid getgid getegid getgroups getresuid getresgid getpgrp getpgid getsid
capget uname sysinfo getrlimit setrlimit getrusage getrandom getcpu
"""
_WAITING = """
poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2
eventfd eventfd2
"""
# For descriptors that a sandbox has or makes with socketpair; new sockets are in other lists.
_CHANNEL = """
sendto recvfrom sendmsg recvmsg sendmmsg recvmmsg shutdown getsockopt getsockname getpeername
"""
# Refused with ENOSYS instead of EPERM, since callers can do without them.
_MISSING = "clone3 io_uring_setup pidfd_open pidfd_send_signal memfd_secret userfaultfd"
# For exercises with processes of their own.
_PROCESSES = "fork vfork kill tgkill setsockopt bind listen accept accept4 connect"
_LOOPBACK = "setsockopt bind listen accept accept4 connect"

# Values of fcntl, without F_SETOWN, F_SETSIG (a signal to another process), leases and directory notices.
_FCNTL = (0, 1, 2, 3, 4, 5, 6, 7, 36, 37, 38, 1025, 1030, 1031, 1032, 1033, 1034)
# TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX; neither TIOCSTI nor calls for devices.
_IOCTL = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
# Names of threads and memory, and queries; not PDEATHSIG, DUMPABLE, MM, PTRACER.
_PRCTL = (2, 3, 15, 16, 21, 23, 30, 39, 0x5356_4D41)

_CLONE_THREAD = 0x0001_0000
_CLONE_PARENT = 0x0000_8000
_CLONE_NEW_ANY = 0x7E02_0080
_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_NETLINK_ROUTE = 0
_SOCK_STREAM, _SOCK_TYPE_MASK = 1, 0xF

_BPF_LD_W_ABS, _BPF_JGE_K, _BPF_RET_K = 0x20, 0x35, 0x06
_RET_ERRNO = 0x0005_0000
_INSTRUCTION = struct.Struct("=HBBI")
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2


@functools.cache
def compile_filter(*, processes: bool, loopback: bool) -> bytes:
    """Return the filter's program, for `load`.

    Raises:
        ImportError: pyseccomp is not installed.
        RuntimeError: libseccomp is not installed.
        OSError: libseccomp cannot build the filter for this architecture.
    """
    library: Any = importlib.import_module("pyseccomp")
    rules = library.SyscallFilter(library.ERRNO(errno.EPERM))
    rules.set_attr(library.Attr.ACT_BADARCH, library.ERRNO(errno.ENOSYS))
    groups = [_FILES, _MEMORY, _TIME, _THREADS, _QUESTIONS, _WAITING, _CHANNEL]
    groups += [_PROCESSES] * processes + [_LOOPBACK] * loopback
    _add(rules, library.ALLOW, sorted(set(" ".join(groups).split())))
    _add(rules, library.ERRNO(errno.ENOSYS), _MISSING.split())
    _add_conditional(library, rules, processes=processes)
    _add_sockets(library, rules, processes=processes, loopback=loopback)
    return _unknown_calls_do_not_exist() + _exported(rules)


def compiled(limits: Limits) -> bytes | None:
    """Return the filter for a sandbox with these limits, None if it cannot be built."""
    try:
        return compile_filter(processes=limits.processes, loopback=limits.loopback)
    except (ImportError, RuntimeError, OSError):
        return None


def filter_calls(site: Site) -> bool:
    """Filter the calls of this process."""
    program = compiled(site.limits)
    if program is not None:
        load(program)
    return program is not None


def why_not() -> tuple[str, str]:
    """Return the reason why this wall is missing here, and a remedy."""
    return "libseccomp or pyseccomp is missing", "install libseccomp2 and pyseccomp"


def load(program: bytes) -> None:
    """Filter this process's calls with the program from now on; needs `no_new_privs`."""
    own = struct.pack("=I", os.getpid())
    program = program.replace(struct.pack("=I", _OWN_PID), own)
    buffer = ctypes.create_string_buffer(program, len(program))
    header = _Program(len(program) // _INSTRUCTION.size, ctypes.addressof(buffer))
    syscalls.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(header))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def _add(rules: Any, action: int, names: list[str]) -> None:
    for name in names:
        try:
            rules.add_rule(action, name)
        except (OSError, ValueError):
            # Unknown to this libseccomp, or not on this architecture: the call stays refused.
            continue


def _add_conditional(library: Any, rules: Any, *, processes: bool) -> None:
    def allow(name: str, *conditions: Any) -> None:
        rules.add_rule(library.ALLOW, name, *conditions)

    equal, masked = library.EQ, library.MASKED_EQ
    for name, position, values in (
        ("fcntl", 1, _FCNTL),
        ("ioctl", 1, _IOCTL),
        ("prctl", 0, _PRCTL),
    ):
        for value in values:
            allow(name, library.Arg(position, equal, value))
    for name in ("prlimit64", "sched_setaffinity"):
        for pid in (0, _OWN_PID):
            allow(name, library.Arg(0, equal, pid))
    new = _CLONE_NEW_ANY | _CLONE_PARENT
    if processes:
        allow("clone", library.Arg(0, masked, new, 0))
        # torch's fork helpers need this call to succeed, but children die with the namespace anyway.
        rules.add_rule(library.ERRNO(0), "prctl", library.Arg(0, equal, syscalls.PR_SET_PDEATHSIG))
    else:
        allow("clone", library.Arg(0, masked, new | _CLONE_THREAD, _CLONE_THREAD))
        for name in ("kill", "tgkill"):
            allow(name, library.Arg(0, equal, _OWN_PID))


def _add_sockets(library: Any, rules: Any, *, processes: bool, loopback: bool) -> None:
    def allow(name: str, family: int) -> None:
        of_family = library.Arg(0, library.EQ, family)
        # With a datagram socket, a single sendto could reach any address.
        stream = library.Arg(1, library.MASKED_EQ, _SOCK_TYPE_MASK, _SOCK_STREAM)
        rules.add_rule(library.ALLOW, name, of_family, stream)

    allow("socketpair", _AF_UNIX)
    if processes:
        allow("socket", _AF_UNIX)
    if loopback:
        allow("socket", _AF_INET)
        allow("socket", _AF_INET6)
        # getaddrinfo and getifaddrs ask the kernel for the addresses of `lo`.
        netlink = library.Arg(0, library.EQ, _AF_NETLINK)
        rules.add_rule(library.ALLOW, "socket", netlink, library.Arg(2, library.EQ, _NETLINK_ROUTE))


def _exported(rules: Any) -> bytes:
    with tempfile.TemporaryFile() as file:
        rules.export_bpf(file)
        file.seek(0)
        return file.read()


def _unknown_calls_do_not_exist() -> bytes:
    # These instructions go before libseccomp's program, whose jumps are all relative.
    return b"".join(
        _INSTRUCTION.pack(*instruction)
        for instruction in (
            (_BPF_LD_W_ABS, 0, 0, 0),
            (_BPF_JGE_K, 0, 1, _FIRST_UNKNOWN),
            (_BPF_RET_K, 0, 0, _RET_ERRNO | errno.ENOSYS),
        )
    )
