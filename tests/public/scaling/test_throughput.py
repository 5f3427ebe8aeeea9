"""Small examples for throughput, with numbers that you can follow."""

from grader.judge.checks import assert_close, assert_equal, entry, laws, must_raise, promise
from grader.judge.student import Student


@promise(
    "throughput",
    hint="Sum up the results of the timed steps, and divide by the seconds that they took.",
)
def test_throughput_of_three_steps(student: Student) -> None:
    """After a slow warm-up step, 8 + 8 + 4 samples in 2 seconds are 10 samples per second"""
    result = student.run("throughput", [8, 8, 8, 4], [6.0, 0.5, 0.5, 1.0], warmup=1)
    assert_close(result, 10.0, what="the throughput")


@promise("throughput", hint="Warm-up steps, synchronize, clock, timed steps, synchronize, clock.")
def test_throughput_reads_the_clock_twice(student: Student) -> None:
    """The clock is read before and after the timed steps, each time right after synchronize"""
    events = [str(event) for event in entry(student.run("events"), kind=list)]
    assert_equal(
        [event for event in events if event != "synchronize"],
        ["step", "clock", "step", "step", "clock"],
        what="the list of what throughput calls for one step of warm-up and two timed ones",
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
    """If rank 0 measures 10 samples per second and rank 1 measures 20, the result of benchmark is 30"""
    assert_close(
        student.run("benchmarked"), {2: 30.0, 1: 10.0}, what="the throughputs by world size"
    )


@promise("scaling_efficiency", hint="T_n / (n * T_1): 150 / (2 * 100) is 0.75.")
def test_efficiency_of_two_ranks(student: Student) -> None:
    """If one rank processes 100 samples per second and two process 150, the efficiencies are 1 and 0.75"""
    efficiency = student.function("scaling_efficiency")({2: 150.0, 1: 100.0})
    assert_close(efficiency, {2: 0.75, 1: 1.0}, what="the efficiencies")


@promise(
    "scaling_efficiency",
    hint="Look for an entry of 1 first, then at every value: math.isfinite, and above 0.",
)
def test_efficiency_refuses_what_cannot_be_compared(student: Student) -> None:
    """Throughputs without a single rank, an infinite throughput, and a throughput of 0 are a ValueError"""
    bad = [({2: 10.0},), ({1: 10.0, 2: float("inf")},), ({1: 10.0, 2: 0.0},)]
    slow = ({1: 0.5, 2: 0.75},)
    laws.check_errors(student, "scaling_efficiency", {"throughputs": bad}, fine=slow)
