"""Tests of OperatorLogger, log_operators, count_operators and matmul_flops."""

from __future__ import annotations

from typing import Any

from grader.judge.checks import Cases, Draw, entry, exactly, laws, promise
from grader.judge.student import Student

UNARY = ("sin", "cos", "neg", "abs", "atan", "sinh", "erf", "ceil", "sign")
# Programs over a (m, k), b (k, n), c (n,) with m < k < n and i, two columns of a.
INFERENCE = "with torch.inference_mode(): result = a.t() @ a"
BACKWARD = "p = torch.nn.Parameter(b); (a @ p).tanh().sum().backward(); result = p.grad"
META = "x = torch.empty(5, 3, device='meta') @ torch.empty(3, 2, device='meta'); result = len(x)"
OTHER_LIBRARY = """with torch.library._scoped_library("lab", "DEF") as lab:
    lab.define("mm(Tensor a) -> Tensor")
    lab.impl("mm", torch.neg, "CPU")
    result = torch.ops.lab.mm(a)"""


# --- OperatorLogger -------------------------------------------------------------------------------


@promise(
    "OperatorLogger.__torch_dispatch__",
    points=6,
    hint="Store tuple(tensor.shape), and neither args nor results.",
    word="the sandbox says how many tensors live",
)
def test_keeps_no_tensor(code: Student, draw: Draw) -> Cases:
    """Tensors that the program drops are gone, in the block and after it."""
    yield "the list of the numbers of live tensors in the block and after it", code.run("alive")


@promise(
    "OperatorLogger.__torch_dispatch__",
    points=8,
    hint="OperatorCall(str(func), the inputs' shapes, the outputs' shapes), each time.",
)
def test_names_and_shapes(code: Student, draw: Draw) -> Cases:
    """Each operator is recorded in order: its name and the shapes of its tensors, and nothing else."""
    for program in (
        "result = torch.addmm(c, a, b).relu()",
        "result = torch.where(a > 0, a, 0.0)",
        "result = torch.zeros(2, 5).sum(0) - torch.full((), 3.0)",
    ):
        calls = code.run("recorded_in_full", program, new_tensors(draw))
        yield f"logger.calls of `{program}`", calls


@promise(
    "OperatorLogger.__torch_dispatch__",
    points=8,
    hint="result = func(*args, **kwargs), once, and no other computation with tensors.",
    word="the sandbox says what ran",
)
def test_runs_the_same(code: Student, draw: Draw) -> Cases:
    """A mode around the logger sees exactly what runs without it."""
    for program in ("result = torch.relu(a @ b + c)", INFERENCE, BACKWARD):
        runs = code.run("seen_around", program, new_tensors(draw))
        yield f"the number of runs of each operator in `{program}`", runs


@promise(
    "OperatorLogger",
    points=8,
    hint="self.calls = [] in __init__, not in the class.",
)
def test_loggers(code: Student, draw: Draw) -> Cases:
    """Each logger has its own list, and goes on with it when entered again; both record an inner block."""
    report = code.run("entered", draw.normal(draw.size(2, 10), draw.size(2, 10)))
    for logger, calls in entry(report, kind=dict).items():
        yield f"the calls of {logger}", calls


@promise(
    "OperatorLogger.__torch_dispatch__",
    points=6,
    hint="A function for the shapes of a value can call itself for the items of a list.",
    word="the sandbox says what it recorded",
)
def test_lists(code: Student, draw: Draw) -> Cases:
    """Each tensor of a list, and each of several outputs, has its own shape; numbers have none."""
    yield from recorded(
        code,
        draw,
        "result = torch.cat([a, a * 2, a[:, :1]], 1)",
        "a[:, i] = b[: len(a), :2]; result = a[:, i]",
        "result = a.max(1)[0]",
        "result = torch.split(b, 3, 1)[0]",
        "result = a.sum().item()",
    )


@promise(
    "OperatorLogger.__torch_dispatch__",
    points=4,
    hint="func(*args, **kwargs), and the shapes of args and of kwargs.values().",
)
def test_keyword_arguments(code: Student, draw: Draw) -> Cases:
    """Keyword arguments reach the operator, and the shapes of their tensors come after those of args."""
    yield from recorded(
        code,
        draw,
        "result = torch.mm(a, b, out=a.new_empty(len(a), len(c)))",
        "result = torch.add(a, a, alpha=3)",
    )


@promise(
    "OperatorLogger.__torch_dispatch__",
    points=5,
    hint="Take the inputs' shapes before func runs, and return func's own result.",
)
def test_views_and_in_place(code: Student, draw: Draw) -> Cases:
    """Views and in-place operators are recorded, with the input shapes from before the call."""
    yield from recorded(
        code,
        draw,
        "a.t_(); result = a",
        "b.t().add_(1); result = b",
        "result = torch.add(a, a, out=a.new_empty(0))",
    )


@promise(
    "OperatorLogger.__torch_dispatch__",
    points=5,
    hint="Record every func, read no values, and return func's own result.",
    word="the sandbox says what it recorded",
)
def test_backward_and_others(code: Student, draw: Draw) -> Cases:
    """Backward passes, meta tensors, inference mode and other libraries are recorded, too."""
    yield from recorded(code, draw, BACKWARD, META, INFERENCE, OTHER_LIBRARY)


@promise(
    "OperatorLogger",
    points=2,
    hint="Catch nothing, and leave __enter__ and __exit__ to the base class.",
    after="test_names_and_shapes",
    word="the sandbox says what was raised",
)
def test_errors(code: Student, draw: Draw) -> Cases:
    """Errors of an operator and of the block come through, and no mode stays on."""
    errors = code.run("errors_in_a_block", draw.normal(2, 3))
    yield "the list of errors that come out, and of modes still on,", errors


# --- log_operators --------------------------------------------------------------------------------


@promise(
    "log_operators",
    points=6,
    hint="with OperatorLogger() as logger: result = f(*args, **kwargs)",
)
def test_log_operators(code: Student, draw: Draw) -> Cases:
    """log_operators calls f once, and returns its result and the calls; errors come through."""
    x = draw.normal(*sizes(draw, 2))
    for _ in range(2):
        names = [UNARY[i] for i in draw.permutation(len(UNARY))[: draw.size(2, 6)]]
        report = code.run("logged", x, names, draw.number())
        for what, value in entry(report, kind=dict).items():
            yield f"the {what} of log_operators", value
    errors = code.run("errors_in_log_operators", draw.normal(2, 3))
    yield "the list of errors that come out, and of modes still on,", errors


# --- count_operators ------------------------------------------------------------------------------


@promise(
    "count_operators",
    points=5,
    hint="collections.Counter(names).most_common() has the most frequent first.",
)
def test_counts(code: Student, draw: Draw) -> Cases:
    """Each name has its number of calls, the most frequent come first, and calls stay as they are."""
    names = [f"aten.op{number}.default" for number in range(12) for _ in range(draw.size(1, 5))]
    order = draw.permutation(len(names))
    calls = code.made("calls", [(names[i], ((2, 3),), ((), (2,))) for i in order])
    counts = laws.check_changes_nothing(code, "count_operators", calls)
    yield "the dict of counts", counts
    yield "the counts, in order,", list(counts.values()) if isinstance(counts, dict) else counts
    yield "the dict of counts of no calls", code.function("count_operators")(code.made("calls", []))


# --- matmul_flops ---------------------------------------------------------------------------------


@promise(
    "matmul_flops",
    points=8,
    hint="The factors are the last two inputs: 2 * m * k * n, times the batch size.",
)
def test_flops(code: Student, draw: Draw) -> Cases:
    """Each matrix product counts 2 * m * k * n, times the batch size; all else counts 0."""
    for call in new_calls(draw):
        flops = code.function("matmul_flops")(code.made("calls", [call]))
        yield f"matmul_flops of {call[0]} of {call[1]}", exactly(flops)


@promise(
    "matmul_flops",
    points=4,
    hint="Begin at 0, and add the operations of each call of the four operators.",
    after="test_flops",
)
def test_flops_add_up(code: Student, draw: Draw) -> Cases:
    """The products of many calls add up, no calls give 0, and calls stay as they are."""
    yield "matmul_flops of no calls", code.function("matmul_flops")(code.made("calls", []))
    # The first and the last call are products. Equal calls count as often as they occur.
    rows = new_calls(draw)
    calls = code.made("calls", 2 * (rows + rows[:1]))
    yield "matmul_flops of many calls", laws.check_changes_nothing(code, "matmul_flops", calls)
    functions, why = ["torch.utils.flop_counter."], "work it out from the shapes"
    laws.check_not_used(code, "matmul_flops", calls, functions=functions, why=why)


# --- helpers of the tests -------------------------------------------------------------------------


def sizes(draw: Draw, count: int) -> list[int]:
    """Draw different sizes from 2 to 8."""
    return [2 + int(size) for size in draw.permutation(7)[:count]]


def new_tensors(draw: Draw) -> dict[str, Any]:
    """Draw the tensors of a program, and their sizes."""
    m, k, n = sorted(sizes(draw, 3))
    columns = draw.permutation(k)[:2]
    return {"a": draw.normal(m, k), "b": draw.normal(k, n), "c": draw.normal(n), "i": columns}


def recorded(code: Student, draw: Draw, *programs: str) -> Cases:
    """Yield the calls of programs, in short, and their results. test_names_and_shapes judges full names."""
    for program in programs:
        report = code.run("recorded", program, new_tensors(draw))
        yield f"logger.calls of `{program}`", entry(report, "calls")
        yield f"the result of `{program}`", entry(report, "result")


def new_calls(draw: Draw) -> list[Any]:
    """Return calls of matrix products and of other operators."""
    m, k, n = sizes(draw, 3)
    batch = draw.size(2, 7)
    a, b, y = (m, k), (k, n), (m, n)
    many_a, many_b, many_y = (batch, m, k), (batch, k, n), (batch, m, n)
    return [
        ("aten.mm.default", (a, b), (y,)),
        ("aten.addmm.default", ((n,), a, b), (y,)),
        ("aten.addmm.default", ((), a, b), (y,)),
        ("aten.addmm.default", ((1, n), a, b), (y,)),
        ("aten.bmm.default", (many_a, many_b), (many_y,)),
        ("aten.baddbmm.default", (y, many_a, many_b), (many_y,)),
        ("aten.lgamma.default", (y,), (y,)),
        ("aten.add.Tensor", (y, y), (y,)),
        ("aten.mul.Tensor", (y, y), (y,)),
    ]
