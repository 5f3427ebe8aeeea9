"""Public tests of data_parallel: small examples, with numbers that you can follow."""

import torch

from grader.judge.checks import assert_close, assert_equal, entry, laws, must_raise, promise
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
        mistakes=lambda: {
            "The remainder of the rows goes to the last rank; it goes to the first ones, a row "
            "each.": [torch.tensor([0, 1]), torch.tensor([2, 3]), torch.tensor([4, 5, 6])],
            "Each rank gets every third row; it gets consecutive rows.": [
                batch[rank::3] for rank in range(3)
            ],
            "Sizes differ by more than one, as torch.chunk cuts them: 3, 3 and 1.": [
                torch.tensor([0, 1, 2]),
                torch.tensor([3, 4, 5]),
                torch.tensor([6]),
            ],
            "Row 6 is dropped; the parts together are the whole batch.": [
                torch.tensor([0, 1]),
                torch.tensor([2, 3]),
                torch.tensor([4, 5]),
            ],
        },
    )
    eight = torch.arange(8)
    assert_close(
        [shard(eight, rank, 3) for rank in range(3)],
        [eight[:3], eight[3:6], eight[6:]],
        what="the list of the three parts of eight rows",
        mistakes={"All rows that are left over go to rank 0.": [eight[:4], eight[4:6], eight[6:]]},
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
    nothing = "wrap returned None: return the wrapper."
    told = "Under launch there is a process group: the wrapper is DistributedDataParallel."
    mistakes = {told: kinds[:1] * 2, nothing: ["NoneType"] * 2}
    assert_equal(student.run("wrapped"), kinds, what="the list of wrappers", mistakes=mistakes)


@promise("train_step", hint="zero_grad, forward, loss, backward, step: in this order.")
def test_train_step_on_two_rows(student: Student) -> None:
    """Steps on the loss (w - 3)² move w from 1 to 2 and to 2.5, and return the number of rows"""
    # Both rows say: an input of 1 is to give 3. The gradient at w is 2 (w - 3): first -4, then -2.
    # The second weight belongs to an input of 0, and stays 7.
    inputs, targets = torch.tensor([[1.0, 0.0]] * 2), torch.full((2, 1), 3.0)
    start, two = torch.tensor([[1.0, 7.0]]), torch.tensor([[2.0, 7.0]])
    seen = student.run("train", start, inputs, targets, lr=0.25, steps=2)
    assert isinstance(seen, (list, tuple)) and len(seen) == 2, "What your code did cannot be read."
    returned, weights = seen
    assert_close(
        weights,
        [two, torch.tensor([[2.5, 7.0]])],
        what="the list of the weights after each step",
        mistakes=lambda: {
            "The second step still counts the first one's gradient: call zero_grad in every "
            "step.": [two, torch.tensor([[3.5, 7.0]])],
            "The weight does not change: are backward and optimizer.step both called, in this "
            "order?": [start, start],
        },
    )
    told = {"That is the number of elements: the rows of inputs are counted.": [4, 4]}
    assert_equal(returned, [2, 2], what="the list of the returned numbers of rows", mistakes=told)


@promise(
    "throughput",
    hint="Sum up what the timed steps return, and divide by the seconds that they took.",
)
def test_throughput_of_three_steps(student: Student) -> None:
    """After a slow warm-up step, 8 + 8 + 4 samples in 2 seconds are 10 samples per second"""
    result = student.run("throughput", [8, 8, 8, 4], [6.0, 0.5, 0.5, 1.0], warmup=1)
    assert_close(
        result,
        10.0,
        what="the throughput",
        mistakes=lambda: {
            "The warm-up step is timed and counted.": 28 / 8.0,
            "The warm-up step is timed.": 20 / 8.0,
            "The warm-up step's samples are counted.": 28 / 2.0,
            "Only the last step's samples are counted: sum up what all return.": 2.0,
            "The first step's samples stand for all steps': sum up what each returns.": 12.0,
            "The last step's samples stand for all steps': sum up what each returns.": 6.0,
            "It is steps per second, not samples per second.": 1.5,
            "It is seconds per sample, not samples per second.": 0.1,
        },
    )


@promise("throughput", hint="Warm-up steps, synchronize, clock, timed steps, synchronize, clock.")
def test_throughput_reads_the_clock_twice(student: Student) -> None:
    """The clock is read before and after the timed steps, each time right after synchronize"""
    events = [str(event) for event in entry(student.run("events"), kind=list)]
    assert_equal(
        [event for event in events if event != "synchronize"],
        ["step", "clock", "step", "step", "clock"],
        what="the list of what throughput calls for one step of warm-up and two timed ones",
        mistakes={
            "The clock is read around every step.": ["step"] + ["clock", "step", "clock"] * 2
        },
    )
    before = [events[i - 1] for i, event in enumerate(events) if event == "clock"]
    assert_equal(before, ["synchronize"] * 2, what="the list of what is called before each reading")


@promise("throughput", hint="Compare the two readings before you divide by their difference.")
def test_throughput_of_a_stopped_clock(student: Student) -> None:
    """A clock that stands still is a ValueError that names the clock"""
    with must_raise(ValueError, mentions="clock", call="throughput with a clock that stands still"):
        student.run("throughput", [8, 8], [0.0, 0.0], warmup=1)


@promise(
    "benchmark",
    hint="Each rank calls throughput(step, steps, warmup); the sum over the ranks counts.",
)
def test_benchmark_of_two_ranks(student: Student) -> None:
    """Where rank 0 measures 10 samples per second and rank 1 measures 20, the benchmark says 30"""
    assert_close(
        student.run("benchmarked"),
        {2: 30.0, 1: 10.0},
        what="the throughputs by world size",
        mistakes={"This is the ranks' mean: their throughputs add up.": {2: 15.0, 1: 10.0}},
    )


@promise("average_gradients", hint="all_reduce sums over the ranks; divide by their number.")
def test_average_gradients_of_two_ranks(student: Student) -> None:
    """The mean of the gradients [1, 2] and [5, 6] is [3, 4], on both ranks"""
    own = [torch.tensor([[1.0, 2.0]]), torch.tensor([[5.0, 6.0]])]
    mean = torch.tensor([[3.0, 4.0]])
    averaged = student.run("averaged", own)
    assert_close(
        averaged,
        [mean, mean],
        what="the list of the two ranks' gradients",
        mistakes=lambda: {
            "The gradients are summed, not averaged: divide by the number of ranks.": [2 * mean]
            * 2,
            "The gradients are divided by the number of ranks twice.": [mean / 2] * 2,
            "The gradients are each rank's own: nothing was averaged.": own,
            "Each rank divided its own gradients, but they were never summed.": [
                each / 2 for each in own
            ],
            "Only rank 0 has the mean, every rank needs it (all_reduce, not reduce).": [
                mean,
                averaged[1] if isinstance(averaged, list) and len(averaged) == 2 else own[1],
            ],
            "Every rank has rank 0's gradients: that is a broadcast, not a mean.": [own[0]] * 2,
            "Every rank has the largest gradients, not the mean.": [own[1]] * 2,
        },
    )


@promise("scaling_efficiency", hint="T_n / (n * T_1): 150 / (2 * 100) is 0.75.")
def test_efficiency_of_two_ranks(student: Student) -> None:
    """Where one rank makes 100 samples per second and two make 150, the efficiencies are 1 and 0.75"""
    efficiency = student.function("scaling_efficiency")({2: 150.0, 1: 100.0})
    assert_close(efficiency, {2: 0.75, 1: 1.0}, what="the efficiencies")


@promise(
    "scaling_efficiency",
    hint="Look for an entry of 1 first, then at every value: math.isfinite, and above 0.",
)
def test_efficiency_refuses_what_cannot_be_compared(student: Student) -> None:
    """Throughputs without one of a single rank, an infinite one and one of 0 are a ValueError"""
    bad = [({2: 10.0},), ({1: 10.0, 2: float("inf")},), ({1: 10.0, 2: 0.0},)]
    slow = ({1: 0.5, 2: 0.75},)
    laws.check_errors(student, "scaling_efficiency", {"throughputs": bad}, fine=slow)


@promise("report", hint="Compare with the example in the docstring, line by line.")
def test_report_of_the_docstring(student: Student) -> None:
    """The report is the one in its docstring"""
    throughputs = {2: 150.0, 1: 100.0}
    overheads = {"batch_splitting": 0.001, "gradient_reduction": 0.003}
    text = student.function("report")(throughputs, overheads)
    kind = type(text).__name__
    assert isinstance(text, str), f"report returned an object of type {kind}, not a str."
    expected = (
        "| world size | samples/s | speed-up | efficiency (%) |\n"
        "| --- | --- | --- | --- |\n"
        "| 1 | 100.0 | 1.00 | 100.0 |\n"
        "| 2 | 150.0 | 1.50 | 75.0 |\n"
        "\n"
        "| overhead | ms | share (%) |\n"
        "| --- | --- | --- |\n"
        "| batch_splitting | 1.000 | 25.0 |\n"
        "| gradient_reduction | 3.000 | 75.0 |"
    )
    one, two = "| 1 | 100.0 | 1.00 | 100.0 |\n", "| 2 | 150.0 | 1.50 | 75.0 |\n"
    rows = [line[2:-2] for line in expected.split("\n")]
    assert_equal(
        text.strip("\n"),
        expected,
        what="the report",
        mistakes=lambda: {
            "The rows are in the order of throughputs: sort them by world size.": expected.replace(
                one + two, two + one
            ),
            "The blank line between the tables is missing: Markdown would join them.": (
                expected.replace("\n\n", "\n")
            ),
            "The rows have no outer pipes.": "\n".join(rows),
            "The lines of dashes are not those of the example: | --- | --- |.": expected.replace(
                " --- ", "---"
            ),
            "The efficiency is a fraction: give it in percent.": expected.replace(
                "| 100.0 |\n", "| 1.0 |\n"
            ).replace("| 75.0 |\n", "| 0.8 |\n"),
            "The share is a fraction: give it in percent.": expected.replace("25.0", "0.2").replace(
                "75.0 |", "0.8 |"
            ),
            "The overheads are in seconds: give milliseconds.": expected.replace(
                "1.000", "0.001"
            ).replace("3.000", "0.003"),
        },
    )
    falling = student.function("report")({4: 80.0, 1: 100.0}, dict.fromkeys(overheads, 0.0))
    for row in ("| 4 | 80.0 | 0.80 | 20.0 |", "| gradient_reduction | 0.000 | 0.0 |"):
        assert row in str(falling), (
            f"For 80 samples/s on 4 ranks, 100 on 1, and no overheads, the row {row} is missing."
        )
