"""The rehearsal before a class is answered in full, and leaves no trace in the fork server."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
import torch

from grader.sandbox.inside.rehearsal import _requests, rehearse
from grader.sandbox.inside.worker import Worker
from grader.sandbox.wire.messages import Built, Loaded, Raised, Returned
from grader.sandbox.wire.unpacking import Unpacking


def test_every_request_is_carried_out(tmp_path: Path) -> None:
    worker = Worker(tmp_path)
    replies = []
    for request, packing in _requests(torch):
        unpacking = Unpacking(bytearray(b"".join(packing.blobs)), strided=True)
        replies.append(worker.answer(request, unpacking)[0])
    sys.modules.pop("rehearsal")
    refused = [reply for reply in replies if isinstance(reply, Raised)]
    assert [reply.text for reply in refused] == ["no", "no"]
    assert all(isinstance(reply, (Loaded, Built, Returned, Raised)) for reply in replies)


def test_it_leaves_no_trace() -> None:
    def states() -> list[object]:
        drawn = random.getstate(), torch.get_rng_state().tolist(), str(np.random.get_state())
        return [*drawn, set(sys.modules), torch.is_grad_enabled()]

    rehearse()  # the first one imports what any sandbox does
    before = states()
    rehearse()
    assert states() == before
