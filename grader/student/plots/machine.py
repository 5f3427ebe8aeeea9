"""The machine that a picture's measurements were taken on, in words for its caption."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from grader.text import clean, counted

_LONGEST_NAME = 60


def machine_words() -> str:
    """The kind of the processors and how many of them there are to use."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{clean(_processor(), _LONGEST_NAME)}, {counted(usable or 1, 'processor')}"


def _processor() -> str:
    """The name of the processor, where the system tells it; else the kind of the machine."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    name = names[0] if names else platform.processor() or platform.machine()
    return name.replace("(R)", "").replace("(TM)", "") or "a machine without a name"
