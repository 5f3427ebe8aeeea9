"""Small examples for data_parallel, with numbers that you can follow."""

import torch

from grader.judge.checks import assert_close, assert_equal, laws, promise
from grader.judge.student import Student


@promise("shard", points=0.5, hint="Start with how many rows each rank gets: 3, 2 and 2.")
def test_shard_of_seven_rows(student: Student) -> None:
    """Seven rows over three ranks are rows 0 to 2, rows 3 and 4, rows 5 and 6"""
    shard = student.function("shard")
    batch = torch.arange(7)
    assert_close(
        [shard(batch, rank, 3) for rank in range(3)],
        [torch.tensor([0, 1, 2]), torch.tensor([3, 4]), torch.tensor([5, 6])],
        what="the list of the three parts",
    )
    eight = torch.arange(8)
    assert_close(
        [shard(eight, rank, 3) for rank in range(3)],
        [eight[:3], eight[3:6], eight[6:]],
        what="the list of the three parts of eight rows",
    )


@promise("shard", points=0.5, hint="Check world_size, rank and the number of rows before you cut.")
def test_shard_refuses_what_does_not_fit(student: Student) -> None:
    """A world_size of 0, a rank of -1 or 3 among three, and seven rows for eight ranks are a ValueError"""
    batch = torch.arange(7)
    table = {"world_size": [(batch, 0, 0)], "rank": [(batch, -1, 3), (batch, 3, 3)]}
    laws.check_errors(student, "shard", {**table, "batch": [(batch, 0, 8)]})


@promise("wrap", hint="torch.distributed.is_initialized() says whether there is a process group.")
def test_wrap_alone_and_on_a_rank(student: Student) -> None:
    """Without a process group the wrapper is DataParallel, under launch DistributedDataParallel"""
    kinds = ["DataParallel", "DistributedDataParallel"]
    assert_equal(student.run("wrapped"), kinds, what="the list of wrappers")


@promise("train_step", hint="zero_grad, forward, loss, backward, step: in this order.")
def test_train_step_on_two_rows(student: Student) -> None:
    """Steps on the loss (w - 3)² move w from 1 to 2 and to 2.5, and return the number of rows"""
    # In both rows, an input of 1 should give 3. The gradient at w is 2 (w - 3): first -4, then -2.
    # The second weight belongs to an input of 0, and stays 7.
    inputs, targets = torch.tensor([[1.0, 0.0]] * 2), torch.full((2, 1), 3.0)
    start, two = torch.tensor([[1.0, 7.0]]), torch.tensor([[2.0, 7.0]])
    seen = student.run("train", start, inputs, targets, lr=0.25, steps=2)
    assert isinstance(seen, (list, tuple)) and len(seen) == 2, "What your code did cannot be read."
    returned, weights = seen
    assert_close(
        weights, [two, torch.tensor([[2.5, 7.0]])], what="the list of the weights after each step"
    )
    assert_equal(returned, [2, 2], what="the list of the returned numbers of rows")


@promise("average_gradients", hint="all_reduce sums over the ranks; divide by their number.")
def test_average_gradients_of_two_ranks(student: Student) -> None:
    """The mean of the gradients [1, 2] and [5, 6] is [3, 4], on both ranks"""
    own = [torch.tensor([[1.0, 2.0]]), torch.tensor([[5.0, 6.0]])]
    mean = torch.tensor([[3.0, 4.0]])
    averaged = student.run("averaged", own)
    assert_close(averaged, [mean, mean], what="the list of the two ranks' gradients")
