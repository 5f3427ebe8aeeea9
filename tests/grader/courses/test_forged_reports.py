"""A submission that forges the probe's report or stops all random generators passes no hidden test."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.course.manifest import load_course
from grader.judge.assignment import GradingOptions
from grader.judge.preloading import modules_of
from grader.judge.process import judge_source, judges
from grader.results import Visibility

pytestmark = pytest.mark.thorough

COURSE = load_course(Path(__file__).parents[3])
# Random numbers are constant, so they look the same before and after a call.
STOPPED = """\
import contextlib
import random

import numpy as np
import torch

_rand = torch.rand
random.random = lambda: 0.5
random.gauss = lambda mean, deviation: 0.5
np.random.rand = np.random.randn = lambda *shape: np.zeros(shape)
torch.randn = lambda *shape, **_: torch.zeros(*shape)
torch.rand = lambda *shape, generator=None, **_: (
    _rand(*shape, generator=generator) if generator else torch.zeros(*shape)
)
"""
FORGED = {
    "checkpoint": """
import sys

def random_state(): return {}
def set_random_state(state): pass

def save_checkpoint(path, model, optimizer, epoch, scheduler=None):
    probe = sys._getframe(1).f_globals
    lists = ("state", "options", "gradients", "requires_grad", "modes", "objects")
    facts = dict.fromkeys(lists, []) | dict.fromkeys(("weights", "buffers", "scheduler"), {})
    facts |= {"grad mode": True, "draws": probe["draws"]()}
    same = dict.fromkeys(("before", "loaded", "resumed", "loaded again"), facts)
    report = {**same, "left": facts, "objects": [], "file": b"file", "values": [18, 18]}
    listed = lambda module, start, name: {"files": [name], "error": None}
    probe.update(dict.fromkeys(("saved", "saved_on_a_gpu", "resumed"), lambda *_: report))
    probe.update(files=listed, files_at_a_path=listed)
    probe["refusal"] = lambda *_: {"refused": True, "ran": False}
    return report

def load_checkpoint(path, *objects): return save_checkpoint(path, *objects[:2], 1) and 18
""",
    "reproducibility": """
def set_seed(seed): pass
def fork_rng(seed=None): return contextlib.nullcontext()
def seed_worker(worker_id): pass
def seeded_loader(*arguments, **options): return []
""",
}


@pytest.mark.parametrize("exercise", FORGED)
def test_a_forged_report_earns_nothing(exercise: str) -> None:
    own = COURSE.exercise(exercise)
    source = (STOPPED + FORGED[exercise]).encode()
    with judges(preload=modules_of(COURSE, (own,))) as (judge,):
        result = judge_source(judge, COURSE, own, source, GradingOptions()).result
    hidden = [test for test in result.tests if test.visibility is Visibility.HIDDEN]
    assert [test.name for test in hidden if test.score] == []
