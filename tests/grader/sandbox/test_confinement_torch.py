"""The parts of torch that exercises need work behind the walls, inside bubblewrap and outside."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from .arena import SITUATIONS, Arena, open_arena

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the walls need Linux"),
    pytest.mark.thorough,
]

# Warms torch up before any fork, as the fork server does.
WARM = """
import torch, matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot
x = torch.ones(2, 2, requires_grad=True)
(x @ x).sum().backward()
"""

CODE = {
    "backward": """
import torch
x = torch.ones(300, 300, requires_grad=True)
(x @ x).sum().backward()
value = list(x.grad.shape)
""",
    "threads": """
import torch
torch.set_num_threads(2)
value = torch.ones(2_000_000).sin().shape[0] + torch.ones(500, 500).matmul(torch.ones(500, 500)).shape[0]
""",
    "save_and_load": """
import torch
torch.save({"a": torch.ones(3)}, "model.pt")
value = torch.load("model.pt")["a"].tolist()
""",
    "figure": """
import os
import matplotlib.pyplot as plt
figure, axes = plt.subplots()
axes.plot([1, 2, 3])
axes.set_title("loss")
figure.savefig("figure.png")
value = os.path.getsize("figure.png") > 1000
""",
    "trace": """
import torch
value = torch.jit.trace(lambda a: a * 2, torch.ones(2))(torch.ones(2)).tolist()
""",
    "script": """
import linecache, torch
source = "def double(a: int) -> int:\\n    return a * 2\\n"
open("student.py", "w").write(source)
space = {"__name__": "student"}
exec(compile(source, "student.py", "exec"), space)
value = torch.jit.script(space["double"])(4)
""",
}

LOADER = """
import torch
class Numbers(torch.utils.data.Dataset):
    def __len__(self): return 16
    def __getitem__(self, index): return torch.full((1000,), float(index))
loader = torch.utils.data.DataLoader(Numbers(), batch_size=4, num_workers=2)
value = sum(batch.sum().item() for batch in loader)
"""

RANKS = """
import multiprocessing, os, torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
def rank(number, queue):
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="29500")
    dist.init_process_group("gloo", rank=number, world_size=2)
    model = DistributedDataParallel(torch.nn.Linear(3, 1))
    model(torch.full((2, 3), float(number))).sum().backward()
    queue.put(model.module.weight.grad.sum().item())
    queue.close()
    queue.join_thread()
    # Not by returning: now and then, walls or no walls, the model's end then waits for ever for one
    # of gloo's threads.
    os._exit(0)
context = multiprocessing.get_context("fork")
queue = context.Queue()
ranks = [context.Process(target=rank, args=(number, queue)) for number in range(2)]
[each.start() for each in ranks]
value = [queue.get(timeout=30) for _ in ranks]
[each.join() for each in ranks]
"""

SPAWNED_BY_TORCH = """
import os, torch
import torch.distributed as dist
def rank(number):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29501")
    dist.init_process_group("gloo", rank=number, world_size=2)
    total = torch.ones(1)
    dist.all_reduce(total)
    assert total.item() == 2
    dist.barrier()
    dist.destroy_process_group()
torch.multiprocessing.start_processes(rank, nprocs=2, start_method="fork")
value = "done"
"""


@pytest.fixture(scope="module", params=["plain", "bubblewrap", "without_namespaces"])
def arena(request: pytest.FixtureRequest) -> Iterator[Arena]:
    settings = SITUATIONS[request.param] | {
        # The constructor of DistributedDataParallel imports torch._dynamo, which takes seconds.
        "preload": ("torch", "torch.distributed", "torch.utils.data", "torch._dynamo"),
        "warm": WARM,
    }
    with open_arena(settings) as arena:
        yield arena


@pytest.mark.parametrize("name", CODE)
def test_torch_works(name: str, arena: Arena) -> None:
    outcome = arena.run(CODE[name])
    assert outcome.error is None, outcome
    assert outcome.value


def test_a_loader_with_workers_needs_processes(arena: Arena) -> None:
    outcome = arena.run(LOADER, processes=True)
    assert outcome.value == 120_000, outcome
    assert arena.run(LOADER).error in ("PermissionError", "OSError")


def test_two_ranks_communicate(arena: Arena) -> None:
    outcome = arena.run(RANKS, processes=True, loopback=True)
    assert outcome.value == [3.0, 3.0], outcome
    assert arena.run(SPAWNED_BY_TORCH, processes=True, loopback=True).value == "done"


def test_a_tensor_above_the_memory_limit_is_refused(arena: Arena) -> None:
    outcome = arena.run("import torch; torch.ones(2**28)", memory_bytes=2**29)
    assert outcome.error == "RuntimeError"
    assert "allocate" in outcome.text
