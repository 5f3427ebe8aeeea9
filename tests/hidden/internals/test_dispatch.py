"""Tests of OperatorLogger, log_operators, count_operators and matmul_flops."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from grader.judge.checks import assert_close, assert_equal, entry, laws
from grader.judge.student import Student

Shape = tuple[int, ...]


class Call(NamedTuple):
    """A call of an operator, as it should be or as it was recorded."""

    name: str
    inputs: Any  # the shapes of the tensors
    outputs: Any


UNARY = ("sin", "cos", "neg", "abs", "atan", "sinh", "erf", "ceil", "sign")
# Programs over a (m, k), b (k, n), c (n,) with m < k < n and i, two columns of a. They run in the judge, and
# in the sandbox.
INFERENCE = "with torch.inference_mode(): result = a.t() @ a"
BACKWARD = "p = torch.nn.Parameter(b); (a @ p).tanh().sum().backward(); result = p.grad"
META = "x = torch.empty(5, 3, device='meta') @ torch.empty(3, 2, device='meta'); result = len(x)"
OTHER_LIBRARY = """with torch.library._scoped_library("lab", "DEF") as lab:
    lab.define("mm(Tensor a) -> Tensor")
    lab.impl("mm", torch.neg, "CPU")
    result = torch.ops.lab.mm(a)"""


# --- OperatorLogger -------------------------------------------------------------------------------


@pytest.mark.points(6)
@pytest.mark.place("OperatorLogger.__torch_dispatch__")
@pytest.mark.word("the sandbox says how many tensors live")
@pytest.mark.hint("Store tuple(tensor.shape), and neither args nor results.")
def test_keeps_no_tensor(student: Student) -> None:
    """Tensors that the program drops are gone, in the block and after it."""
    report = student.run("alive")
    assert entry(report, "calls", kind=int) >= 4, "The logger has recorded too little."
    alive = {"in the block": 0, "after the block": 0}
    assert_equal(entry(report, "alive"), alive, what="the number of tensors that are still alive")


@pytest.mark.points(8)
@pytest.mark.place("OperatorLogger.__torch_dispatch__")
@pytest.mark.hint("OperatorCall(str(func), the inputs' shapes, the outputs' shapes), each time.")
def test_names_and_shapes(student: Student) -> None:
    """Each operator is recorded in order: its name, and the shapes of its tensors, of nothing else."""
    programs = [
        "result = torch.addmm(c, a, b).relu()",
        "result = torch.where(a > 0, a, 0.0)",
        "result = torch.zeros(2, 5).sum(0) - torch.full((), 3.0)",
    ]
    for program in programs:
        tensors = new_tensors()
        report = student.run("recorded", program, tensors)
        calls, _ = run_here(program, tensors)
        what = f"logger.calls of `{program}`"
        recorded = calls_of(entry(report, "calls"), what)
        assert_equal(list(map(in_full, recorded)), list(map(in_full, calls)), what=what)
        told = "A call is a bare tuple, or something else than an OperatorCall."
        assert entry(report, "have names") is True, told


@pytest.mark.points(8)
@pytest.mark.place("OperatorLogger.__torch_dispatch__")
@pytest.mark.word("the sandbox says what ran")
@pytest.mark.hint("result = func(*args, **kwargs), once, and no other computation with tensors.")
def test_runs_the_same(student: Student) -> None:
    """A mode around the logger sees exactly what runs without it."""
    for program in ["result = torch.relu(a @ b + c)", INFERENCE, BACKWARD]:
        tensors = new_tensors()
        runs = student.run("seen_around", program, tensors)
        calls, _ = run_here(program, tensors)
        right = dict(Counter(call.name for call in calls))
        what = f"the dict of how often each operator runs in `{program}`"
        assert_equal(runs, right, what=what, ordered=False)


@pytest.mark.points(8)
@pytest.mark.place("OperatorLogger")
@pytest.mark.hint("self.calls = [] in __init__, after super().__init__().")
def test_loggers(student: Student) -> None:
    """Each logger goes on with a list of its own; an inner block is recorded by both."""
    shape = (random.randint(2, 9), random.randint(2, 9))
    x = torch.randn(shape)
    report = student.run("entered", x)
    add, mul, sub = [
        Call(f"aten.{name}.Tensor", (shape, shape), (shape,)) for name in ("add", "mul", "sub")
    ]
    neg = Call("aten.neg.default", (shape,), (shape,))
    assert_close(entry(report, "x + x"), x + x, what="x + x in the block")
    check_calls(entry(report, "new"), [], "the calls of a new logger")
    check_calls(entry(report, "outer"), [add, mul, sub], "the calls of the outer logger")
    check_calls(entry(report, "inner"), [mul], "the calls of the inner logger")
    again = entry(report, "entered again")
    check_calls(again, [add, mul, sub, neg], "the calls of the outer logger, entered again,")
    check_calls(entry(report, "last"), [], "the calls of another new logger")


@pytest.mark.points(6)
@pytest.mark.place("OperatorLogger.__torch_dispatch__")
@pytest.mark.word("the sandbox says what it recorded")
@pytest.mark.hint("A function for the shapes of a value can call itself for the items of a list.")
def test_lists(student: Student) -> None:
    """The tensors of a list leave their shapes one by one, and so do several outputs; none leave none."""
    check_program(student, "result = torch.cat([a, a * 2, a[:, :1]], 1)")
    check_program(student, "a[:, i] = b[: len(a), :2]; result = a[:, i]")
    check_program(student, "result = a.max(1)[0]")
    check_program(student, "result = torch.split(b, 3, 1)[0]")
    check_program(student, "result = a.sum().item()")


@pytest.mark.points(4)
@pytest.mark.place("OperatorLogger.__torch_dispatch__")
@pytest.mark.hint("func(*args, **kwargs), and the shapes of args and of kwargs.values().")
def test_keyword_arguments(student: Student) -> None:
    """Keyword arguments go on to the operator, and their tensors come after those of args."""
    check_program(student, "result = torch.mm(a, b, out=a.new_empty(len(a), len(c)))")
    check_program(student, "result = torch.add(a, a, alpha=3)")


@pytest.mark.points(5)
@pytest.mark.place("OperatorLogger.__torch_dispatch__")
@pytest.mark.hint("Take the inputs' shapes before func runs, and return func's own result.")
def test_views_and_in_place(student: Student) -> None:
    """Views and in-place operators are recorded, with the input shapes from before the call."""
    check_program(student, "a.t_(); result = a")
    check_program(student, "b.t().add_(1); result = b")
    check_program(student, "result = torch.add(a, a, out=a.new_empty(0))")


@pytest.mark.points(5)
@pytest.mark.place("OperatorLogger.__torch_dispatch__")
@pytest.mark.word("the sandbox says what it recorded")
@pytest.mark.hint("Record every func, read no values, and return func's own result.")
def test_backward_and_others(student: Student) -> None:
    """Backward passes, meta tensors, inference mode and other libraries are recorded, too."""
    for program in [BACKWARD, META, INFERENCE, OTHER_LIBRARY]:
        check_program(student, program)


@pytest.mark.points(2)
@pytest.mark.requires("test_names_and_shapes")
@pytest.mark.place("OperatorLogger")
@pytest.mark.word("the sandbox says what was raised")
@pytest.mark.hint("Catch nothing, and leave __enter__ and __exit__ to the base class.")
def test_errors(student: Student) -> None:
    """Errors of an operator and of the block come through, and no mode stays on."""
    check_what_comes_out(student.run("errors_in_a_block", torch.randn(2, 3)))


# --- log_operators --------------------------------------------------------------------------------


@pytest.mark.points(6)
@pytest.mark.place("log_operators")
@pytest.mark.hint("with OperatorLogger() as logger: result = f(*args, **kwargs)")
def test_log_operators(student: Student) -> None:
    """log_operators calls f once, and gives its own result and the calls; errors come through."""
    rows, columns = random.sample(range(2, 9), 2)
    x = torch.randn(rows, columns)
    of_x, of_result = ((rows, columns),), ((columns, rows),)
    for _ in range(2):
        names, shift = random.sample(UNARY, random.randint(2, 5)), random.random()
        calls = [Call(f"aten.{name}.default", of_x, of_x) for name in names]
        calls.append(Call("aten.t.default", of_x, of_result))
        calls.append(Call("aten.add.Tensor", of_result, of_result))
        report = student.run("logged", x, names, shift)
        assert_equal(entry(report, "is a pair"), True, what="whether log_operators returns a pair")
        assert_close(entry(report, "result"), x.t() + shift, what="the result of f")
        check_calls(entry(report, "calls"), calls, "the list of calls")
        modes = "the list of the grad modes in which f runs, which is once"
        assert_equal(entry(report, "grad modes"), [True], what=modes)
        assert_equal(entry(report, "requires_grad"), True, what="the requires_grad of f's result")
    check_what_comes_out(student.run("errors_in_log_operators", torch.randn(2, 3)))


# --- count_operators ------------------------------------------------------------------------------


@pytest.mark.points(5)
@pytest.mark.place("count_operators")
@pytest.mark.hint("collections.Counter(names).most_common() has the most frequent first.")
def test_counts(student: Student) -> None:
    """Each name has its number of calls, the most frequent come first, and calls stay as they are."""
    right = {f"aten.op{number}.default": random.randint(1, 4) for number in range(12)}
    names = [name for name, count in right.items() for _ in range(count)]
    random.shuffle(names)
    calls = student.made("calls", [Call(name, ((2, 3),), ((), (2,))) for name in names])
    counts = laws.check_changes_nothing(student, "count_operators", calls)
    assert_equal(counts, right, what="the dict of counts", ordered=False)
    numbers = list(counts.values())
    told = f"The numbers come as {numbers}: the most frequent name has to stand first."
    assert numbers == sorted(numbers, reverse=True), told
    of_none = student.function("count_operators")(student.made("calls", []))
    assert_equal(of_none, {}, what="the dict of counts of no calls")


# --- matmul_flops ---------------------------------------------------------------------------------


@pytest.mark.points(8)
@pytest.mark.place("matmul_flops")
@pytest.mark.hint("The factors are the last two inputs: 2 * m * k * n, times the batch size.")
def test_flops(student: Student) -> None:
    """Each matrix product counts 2 * m * k * n, times the batch size; all else counts 0."""
    for call, operations in new_products():
        flops = student.function("matmul_flops")(student.made("calls", [call]))
        assert_equal(flops, operations, what=f"matmul_flops of {call.name} of {call.inputs}")


@pytest.mark.points(4)
@pytest.mark.requires("test_flops")
@pytest.mark.place("matmul_flops")
@pytest.mark.hint("Begin at 0, and add what each call of the four operators takes.")
def test_flops_add_up(student: Student) -> None:
    """The products of many calls add up, none give 0, and calls stay as they are."""
    flops = student.function("matmul_flops")
    assert_equal(flops(student.made("calls", [])), 0, what="matmul_flops of no calls")
    # The last call is a product, too, as the first one is; equal calls count as often as they stand there.
    products = new_products() + new_products()[:1]
    twice = products + products
    calls = student.made("calls", [call for call, _ in twice])
    total = laws.check_changes_nothing(student, "matmul_flops", calls)
    right = sum(operations for _, operations in twice)
    assert_equal(total, right, what=f"matmul_flops of {len(twice)} calls")
    functions, why = ["torch.utils.flop_counter."], "work it out from the shapes"
    laws.check_not_used(student, "matmul_flops", calls, functions=functions, why=why)


# --- what is right --------------------------------------------------------------------------------


def new_tensors() -> dict[str, Tensor]:
    """The tensors of a program, with sizes that are drawn."""
    m, k, n = sorted(random.sample(range(2, 9), 3))
    return {
        "a": torch.randn(m, k),
        "b": torch.randn(k, n),
        "c": torch.randn(n),
        "i": torch.tensor([k - 1, 0]),
    }


class Reference(TorchDispatchMode):
    """Records calls here in the judge."""

    _should_skip_dynamo = classmethod(lambda cls: False)  # else torch._dynamo is imported, in 1 s

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[Call] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        inputs = shapes_of(args) + shapes_of(kwargs)
        result = func(*args, **(kwargs or {}))
        self.calls.append(Call(str(func), inputs, shapes_of(result)))
        return result


def shapes_of(value: Any) -> tuple[Shape, ...]:
    """The shapes of the tensors in a value."""
    return tuple(tuple(leaf.shape) for leaf in tree_leaves(value) if isinstance(leaf, Tensor))


def run_here(program: str, tensors: dict[str, Tensor]) -> tuple[list[Call], Any]:
    """The calls of one of the programs above, and its result."""
    scope: dict[str, Any] = {"torch": torch}
    scope |= {name: tensor.clone() for name, tensor in tensors.items()}
    with Reference() as reference:
        exec(program, scope)
    return reference.calls, scope["result"]


def check_program(student: Student, program: str) -> None:
    """Compare the calls of a program and its result, which is that without a logger."""
    tensors = new_tensors()
    report = student.run("recorded", program, tensors)
    calls, result = run_here(program, tensors)
    check_calls(entry(report, "calls"), calls, f"logger.calls of `{program}`")
    assert_close(entry(report, "result"), result, what=f"the result of `{program}`")


def check_calls(recorded: Any, right: list[Call], what: str) -> None:
    """Compare calls in short: names and shapes in full are judged by test_names_and_shapes alone."""
    calls = calls_of(recorded, what)
    assert_equal(list(map(in_short, calls)), list(map(in_short, right)), what=what)


def calls_of(recorded: Any, what: str) -> list[Call]:
    """The recorded calls, which have to be a list."""
    calls = []
    for call in entry(recorded, kind=list, told=f"There is no list where {what} should be."):
        name = entry(call, 0, kind=str, told=f"A name in {what} is not a str: take str(func).")
        told = f"In {what} the shapes of {name[:80]} are no tuple: one shape for each tensor."
        inputs = entry(call, 1, kind=(list, tuple), told=told)
        outputs = entry(call, 2, kind=(list, tuple), told=told)
        calls.append(Call(name, inputs, outputs))
    return calls


def in_full(call: Call) -> str:
    """The call as "aten.cat.default of [(2, 3), (1, 3)] gives [(3, 3)]"."""
    return f"{call.name} of {list(call.inputs)} gives {list(call.outputs)}"


def in_short(call: Call) -> str:
    """The call as "cat of [[2, 3], [1, 3]] gives [[3, 3]]", whatever else is in aten's names."""
    operator = call.name.removeprefix("aten").lstrip(".:").split(".")[0]
    return f"{operator} of {without_0d(call.inputs)} gives {without_0d(call.outputs)}"


def without_0d(shapes: Any) -> list[list[Any]]:
    """The shapes of one dimension and more: a () may be that of a number."""
    return [list(shape) for shape in shapes if isinstance(shape, (list, tuple)) and shape]


def check_what_comes_out(reports: Any) -> None:
    """Compare what came out where something raised, and the number of modes that are still on."""
    right = [{"raised": name, "modes": 0} for name in ("RuntimeError", "IndexError", "KeyError")]
    assert_equal(reports, right, what="the list of errors that come out, and of modes still on,")


def new_products() -> list[tuple[Call, int]]:
    """Calls of sizes that are drawn, and the number of their operations."""
    m, k, n = random.sample(range(2, 12), 3)
    batch = random.randint(2, 6)
    a, b, y = (m, k), (k, n), (m, n)
    many_a, many_b, many_y = (batch, m, k), (batch, k, n), (batch, m, n)
    operations = 2 * m * k * n
    return [
        (Call("aten.mm.default", (a, b), (y,)), operations),
        (Call("aten.addmm.default", ((n,), a, b), (y,)), operations),
        (Call("aten.addmm.default", ((), a, b), (y,)), operations),
        (Call("aten.addmm.default", ((1, n), a, b), (y,)), operations),
        (Call("aten.bmm.default", (many_a, many_b), (many_y,)), batch * operations),
        (Call("aten.baddbmm.default", (y, many_a, many_b), (many_y,)), batch * operations),
        (Call("aten.lgamma.default", (y,), (y,)), 0),
        (Call("aten.add.Tensor", (y, y), (y,)), 0),
        (Call("aten.mul.Tensor", (y, y), (y,)), 0),
    ]
