"""The ends of a sandbox, prepared by `worker`: what stops it prints the Python stack first.

The stack goes to descriptor 2, where the judge takes it out of what the code printed (`sandbox.stack`).
All of it is in the student's hands, who can turn it off or make it up: it decides nothing, and shows a
student the own line.
"""

from __future__ import annotations

import builtins
import faulthandler
import functools
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, NoReturn

# Asked for by the judge, before it ends a sandbox that gave no answer.
STACK_SIGNAL = getattr(signal, "SIGUSR1", None)


def tell_endings(source: bytes) -> None:
    """Have this process print its stack when it is asked to, crashes, or calls os._exit.

    And have it refuse what waits for a person at a keyboard, as far as the `source` names it.
    """
    faulthandler.enable(file=2, all_threads=False)
    if STACK_SIGNAL is not None:
        faulthandler.register(STACK_SIGNAL, file=2, all_threads=False)
    os._exit = functools.partial(_exit, os.getpid(), os._exit)
    builtins.input = functools.partial(_refuse_to_wait, "input()")
    sys.breakpointhook = functools.partial(_refuse_to_wait, "breakpoint()")
    if b"pdb" in source:
        # Else it would stop a line later, and fail there at its own call of input().
        import pdb

        pdb.set_trace = functools.partial(_refuse_to_wait, "pdb.set_trace()")


def _exit(own: int, end: Callable[[int], NoReturn], status: int) -> NoReturn:
    # A process that the code started, as a loader's worker, may end as it likes.
    if os.getpid() == own:
        faulthandler.dump_traceback(file=2, all_threads=False)
    end(status)


def _refuse_to_wait(call: str, *_: Any, **__: Any) -> NoReturn:
    raise RuntimeError(
        f"{call} waits for a person at the keyboard, which a judged program does not have: take it out"
    )
