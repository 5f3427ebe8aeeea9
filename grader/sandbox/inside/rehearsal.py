"""A rehearsal: the fork server plays the judge to a worker of its own, with a module that is no exercise's.

What runs for the first time in a process costs most: bytecode is specialized, functions of libraries are
looked up, caches of types are filled, and each of it is written into pages that are shared until then. Done
before the fork, no fork has to.
"""

from __future__ import annotations

import random
import socket
import sys
import tempfile
from pathlib import Path
from typing import Any

from grader.sandbox.inside.worker import Worker
from grader.sandbox.wire.channel import Channel
from grader.sandbox.wire.messages import Backward, Build, Call, Forward, Guard, Load, Request
from grader.sandbox.wire.packing import Packing

# So many rounds: Python 3.11 specializes a function that has run eight times.
_ROUNDS = 12
_NAME = "rehearsal"
_SOURCE = b"""
import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(features, features))
        self.register_buffer("offset", torch.zeros(features))
        nn.init.uniform_(self.weight, -0.1, 0.1)

    def forward(self, x):
        return torch.sigmoid(x @ self.weight.T + self.offset)


def function(x, dim=-1):
    return (torch.exp(x - x.amax(dim, keepdim=True)) / x.shape[dim]).sum(dim)


def refusing(x):
    raise ValueError("no")
"""


def rehearse() -> None:
    """Answer a few rounds of requests; does nothing without torch. The random states stay as they are."""
    if (torch := sys.modules.get("torch")) is None:
        return
    numpy: Any = sys.modules.get("numpy")
    states = random.getstate(), torch.get_rng_state(), numpy and numpy.random.get_state()
    ours, theirs = socket.socketpair()
    with ours, theirs, tempfile.TemporaryDirectory() as scratch:
        judge, sandbox = Channel(ours), Channel(theirs)
        for _ in range(_ROUNDS):
            worker = Worker(Path(scratch))
            for request, packing in _requests(torch):
                judge.send(request, packing, timeout=None)
                reply, answer = worker.answer(*sandbox.receive_request())
                sandbox.send(reply, answer, timeout=None)
                while len(ours.recv(2**16)) == 2**16:
                    pass
    sys.modules.pop(_NAME, None)
    random.setstate(states[0])
    torch.set_rng_state(states[1])
    if numpy is not None:
        numpy.random.set_state(states[2])


def _requests(torch: Any) -> list[tuple[Request, Packing]]:
    guard = Guard(frozenset({"function"}), ("aten::nothing",), ())
    requests: list[tuple[Request, Packing]] = [
        (Load(_NAME, f"{_NAME}.py", _SOURCE, (guard,)), Packing())
    ]
    for dtype in (torch.float32, torch.float64):
        x = torch.zeros(3, 4, dtype=dtype, requires_grad=True)
        packing = Packing(strided=True)
        arguments, keywords = packing.pack([x]), packing.pack({"dim": 0})
        gradients = Packing()
        backward = Backward(0, gradients.pack([torch.ones(4, dtype=dtype)]), True)
        requests += [
            (Call("function", arguments, keywords, seed=0, wants=(0,)), packing),
            (backward, gradients),
            (Call("function", arguments, keywords, seed=0, observe=0), packing),
            (Call("refusing", arguments, packing.pack({})), packing),
        ]
    built, called = Packing(), Packing(strided=True)
    requests.append((Build("Layer", built.pack([4]), built.pack({}), seed=0), built))
    state = called.pack({"weight": torch.zeros(4, 4)}), called.pack({"offset": torch.zeros(4)})
    arguments, keywords = called.pack([torch.zeros(3, 4)]), called.pack({})
    forward = Forward(0, *state, ("weight",), True, arguments, keywords, seed=0)
    requests.append((forward, called))
    gradients = Packing()
    requests.append((Backward(0, gradients.pack([torch.ones(3, 4)]), False), gradients))
    return requests
