"""What OperatorLogger, log_operators, count_operators and matmul_flops promise, sentence by sentence."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from grader.judge.checks import assert_close, assert_equal, entry, laws
from grader.judge.student import Student

# Short programs over tensors that are drawn, run here and in the sandbox: a @ b + c is defined, and i are two
# columns of a, which fits into b.
PLAIN = """x = torch.addmm(c, a, b); result = torch.relu(a @ b + c).sum() * 2, x
result = torch.dot(c, c).exp()
result = torch.zeros(2, 5).sum(0) - torch.full((), 3.0)
result = torch.ones(0, len(b)) @ b
result = torch.where(a > 0, a, 0.0).clamp(min=None, max=1.0)"""
LISTS = """result = torch.cat([a, a * 2, a[:, :1]], 1)
a[:, i] = b[: len(a), :2]; result = a[:, i]
x = torch._foreach_add([a, c], [b[: len(a), : len(b)], c])[0]; result = x, torch.split(b, 3, 1)
result = a.max(1)[0], b.max()
result = a.sum().item(), torch.equal(a, a)
torch._foreach_mul_([a, c], 2); result = a, c"""
KEYWORDS = """result = torch.mm(a, b, out=a.new_empty(len(a), len(c)))
x = torch.searchsorted(a, a, sorter=a.argsort(1)); \
result = x, torch.topk(a, 1, out=(a.new_empty(len(a), 1), i.new_empty(len(a), 1)))[0]
result = torch.add(a, a, alpha=3)"""
IN_PLACE = """a.t_(); result = a
view = b.t(); view.add_(1); result = b, view._base is b
c.unsqueeze_(0); c.squeeze_(0); result = c.mul_(2) is c
result = torch.add(a, a, out=a.new_empty(0)), c.resize_(2, 1)"""
OTHERS = """p = torch.nn.Parameter(b); y = a @ p; y.tanh().sum().backward(); result = p.grad, y.requires_grad
s, = torch.autograd.grad(c.requires_grad_().exp().sum(), c, create_graph=True); result = s, s.is_leaf
x = torch.empty(5, 3, device='meta') @ torch.empty(3, 2, device='meta'); result = x.is_meta
with torch.inference_mode(): result = a.t() @ a, a.exp().is_inference()
with torch.library._scoped_library("lab", "DEF") as lab: lab.define("mm(Tensor a) -> Tensor"); \
lab.impl("mm", torch.neg, "CPU"); result = torch.ops.lab.mm(a)"""


CALLS: list[tuple[Any, ...]] = []  # of the Reference, in the last program


class Reference(TorchDispatchMode):
    """Records calls here in the judge."""

    _should_skip_dynamo = classmethod(lambda cls: False)  # else torch._dynamo is imported, in 1 s

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        inputs = shapes_of(args) + shapes_of(kwargs)
        result = func(*args, **(kwargs or {}))
        CALLS.append((str(func), inputs, shapes_of(result)))
        return result


def shapes_of(value: Any) -> tuple[Any, ...]:
    leaves = tree_leaves(value)
    return tuple(tuple(leaf.shape) for leaf in leaves if isinstance(leaf, Tensor))


@pytest.mark.points(6)
@pytest.mark.place("OperatorLogger.__torch_dispatch__")
@pytest.mark.word("the sandbox says how many tensors live")
@pytest.mark.hint("Store tuple(tensor.shape), and neither args nor results.")
def test_keeps_no_tensor(student: Student) -> None:
    """Tensors that the program drops are gone, in the block and after it."""
    report = student.run("alive", random.randint(2, 9))
    assert len(entry(report, "calls", kind=list)) >= 4, "The logger has recorded too little."
    for when in ("in", "after"):
        count = entry(report, when, kind=int)
        told = f"The logger keeps {count} tensors alive {when} the block: store shapes only."
        assert not count, told


@pytest.mark.points(8)
@pytest.mark.place("OperatorLogger.__torch_dispatch__")
@pytest.mark.hint("OperatorCall(str(func), the inputs' shapes, the outputs' shapes), each time.")
def test_names_and_shapes(student: Student) -> None:
    """Each operator is recorded in order: its name, and the shapes of its tensors, of nothing else."""
    check_programs(student, PLAIN, exact=True)


@pytest.mark.points(8)
@pytest.mark.place("OperatorLogger.__torch_dispatch__")
@pytest.mark.word("the sandbox says what ran")
@pytest.mark.hint("result = func(*args, **kwargs), once, and no other computation with tensors.")
def test_runs_the_same(student: Student) -> None:
    """A mode around the logger sees exactly what runs without it."""
    groups = (PLAIN, LISTS, KEYWORDS, IN_PLACE, OTHERS)
    for program, report, reference, _ in compared(student, *groups):
        right = [[*call[:2]] for call in reference]
        around, own = entry(report, "around", kind=list), [name for name, _ in right]
        names = [str(entry(call, 0)) for call in around]
        more = [x for x in names if names.count(x) > own.count(x)]
        told = f"In `{program}` {str(more)[:80]} run more often than without the logger"
        assert not more, f"{told}: run each func once, and no operator of your own."
        assert_equal(around, right, what=f"what a mode around the logger sees of `{program}`")


@pytest.mark.points(8)
@pytest.mark.place("OperatorLogger")
@pytest.mark.hint("self.calls = [] in __init__, after super().__init__().")
def test_loggers(student: Student) -> None:
    """Each logger goes on with a list of its own; an inner block is recorded by both."""
    shape, binary = (random.randint(2, 9), random.randint(2, 9)), ("add", "mul", "sub")
    rows: list[Any] = [(f"aten.{name}.Tensor", (shape, shape), (shape,)) for name in binary]
    every = [*rows, ("aten.neg.default", (shape,), (shape,))]
    total, new, *lists, last = entry(student.run("entered", torch.ones(shape)), count=6)
    assert total is not None, "In the block x + x is None: return the result of func."
    told = "A new logger has calls already: all share one list. Begin it in __init__."
    for calls in (new, last):
        assert not entry(calls, kind=list, told="A new logger has no list `calls`."), told
    outer, again, both = lists
    check_calls(outer, rows, "the calls of the outer logger")
    check_calls(again, every, "the calls of the outer logger, entered again,")
    check_calls(both, rows[1:2], "the calls of the inner logger")


@pytest.mark.points(6)
@pytest.mark.place("OperatorLogger.__torch_dispatch__")
@pytest.mark.word("the sandbox says what it recorded")
@pytest.mark.hint("A function for the shapes of a value can call itself for the items of a list.")
def test_lists(student: Student) -> None:
    """The tensors of a list leave their shapes one by one, and so do several outputs; none leave none."""
    check_programs(student, LISTS)


@pytest.mark.points(4)
@pytest.mark.place("OperatorLogger.__torch_dispatch__")
@pytest.mark.hint("func(*args, **kwargs), and the shapes of args and of kwargs.values().")
def test_keyword_arguments(student: Student) -> None:
    """Keyword arguments go on to the operator, and their tensors come after those of args."""
    check_programs(student, KEYWORDS)


@pytest.mark.points(5)
@pytest.mark.place("OperatorLogger.__torch_dispatch__")
@pytest.mark.hint("Take the inputs' shapes before func runs, and return func's own result.")
def test_views_and_in_place(student: Student) -> None:
    """Views and in-place operators are recorded, with the input shapes from before the call."""
    check_programs(student, IN_PLACE)


@pytest.mark.points(5)
@pytest.mark.place("OperatorLogger.__torch_dispatch__")
@pytest.mark.word("the sandbox says what it recorded")
@pytest.mark.hint("Record every func, read no values, and return func's own result.")
def test_backward_and_others(student: Student) -> None:
    """Backward passes, meta tensors, inference mode and other libraries are recorded, too."""
    check_programs(student, OTHERS)


@pytest.mark.points(2)
@pytest.mark.requires("test_names_and_shapes")
@pytest.mark.place("OperatorLogger")
@pytest.mark.word("the sandbox says what was raised")
@pytest.mark.hint("Catch nothing, and leave __enter__ and __exit__ to the base class.")
def test_errors(student: Student) -> None:
    """Errors of an operator and of the block come through, and no mode stays on."""
    check_errors(student, "OperatorLogger", "a logger's block")


@pytest.mark.points(6)
@pytest.mark.place("log_operators")
@pytest.mark.hint("with OperatorLogger() as logger: result = f(*args, **kwargs)")
def test_log_operators(student: Student) -> None:
    """log_operators calls f once, and gives its own result and the calls; errors come through."""
    rows, columns = random.sample(range(2, 9), 2)
    x = torch.randn(rows, columns)
    report = student.run("logged", x)
    assert entry(report, "pair") is True, "What comes back is no pair: return result, logger.calls."
    assert not isinstance(entry(report, "results", 0), list), "The calls come before the result."
    seen = entry(report, "seen", kind=list)
    assert len(seen) == 2, f"In two calls of log_operators f ran {len(seen)} times: call it once."
    right = [[count, ["other", "scale"], True, True] for count in (2, 1)]
    assert laws.same(seen, right), "f gets other arguments: pass on all of *args and **kwargs."
    own = {"sum": x.t() + 2, "grad mode": True}
    assert_close(entry(report, "results"), [own, *["own"] * 3, own], what="the list of f's results")
    y = ((columns, rows),)
    work: Any = [("aten.t.default", ((rows, columns),), y), ("aten.add.Tensor", y, y)]
    for calls, right in zip(entry(report, "calls", count=5), (work, [], [], [], work), strict=True):
        check_calls(calls, right, "the list of calls")
    assert entry(report, "modes") == 0, "A mode is still on after log_operators: use a with block."
    check_errors(student, "log_operators", "f")


@pytest.mark.points(5)
@pytest.mark.place("count_operators")
@pytest.mark.hint("collections.Counter(names).most_common() has the most frequent first.")
def test_counts(student: Student) -> None:
    """Each name has its number of calls, the most frequent come first, and calls stay as they are."""
    every = ["aten.mm.default", *["aten.t.default"] * 3, "lab.mm.default", "aten.mm.default"]
    every.append(f"b{random.randint(2, 99)}")
    for names in (every, every[:1], every[::-1], [*every, *map(str, range(12))], []):
        lines = [[name, ((2, 3),), ((), (2,))] for name in names]
        right = {name: names.count(name) for name in names}
        calls, what = student.made("rows", lines), f"the dict for {len(names)} calls"
        counts = student.function("count_operators")(calls)
        assert_equal(counts, right, what=what, ordered=False)
        values = list(counts.values())
        told = f"The numbers come as {values}: the most frequent name has to stand first."
        assert values == sorted(values, reverse=True), told
        laws.check_changes_nothing(student, "count_operators", calls)


def products() -> list[Any]:
    """Calls of sizes that are drawn: a name, the inputs, the output, and the number of operations."""
    m, k, n = random.sample(range(2, 12), 3)
    batch = random.randint(2, 6)
    one, many = 2 * m * k * n, 2 * batch * m * k * n
    a, b, y = (m, k), (k, n), (m, n)
    batches = [(batch, *a), (batch, *b)]
    rows: list[Any] = [
        ("aten.mm.default", [a, b], y, one),
        ("aten.addmm.default", [(n,), a, b], y, one),
        ("aten.addmm.default", [(), a, b], y, one),
        ("aten.bmm.default", batches, (batch, *y), many),
        ("aten.baddbmm.default", [y, *batches], (batch, *y), many),
        ("aten.baddbmm.default", [(batch, m, 1), *batches], (batch, *y), many),
    ]
    for name, count in (
        ("addcmul.default", 3),
        ("lgamma.default", 1),
        ("add.Tensor", 2),
        ("mul.Tensor", 2),
    ):
        rows.append((f"aten.{name}", [(m, m)] * count, (m, m), 0))
    rows.append(("aten.zeros.default", [], (m, m), 0))
    huge = [1000 * random.randint(70, 99) for _ in range(3)]
    operations = 2 * huge[0] * huge[1] * huge[2]
    rows.append(
        (
            "aten.mm.default",
            [(huge[0], huge[1]), (huge[1], huge[2])],
            (huge[0], huge[2]),
            operations,
        )
    )
    return rows


def line(row: Any) -> list[Any]:
    """The fields of an OperatorCall."""
    name, inputs, output, _ = row
    return [name, tuple(inputs), (output,)]


@pytest.mark.points(8)
@pytest.mark.place("matmul_flops")
@pytest.mark.hint("The factors are the last two inputs: 2 * m * k * n, times the batch size.")
def test_flops(student: Student) -> None:
    """Each matrix product counts 2 * m * k * n, times the batch size; all else counts 0."""
    for row in products():
        name, inputs, _output, right = row
        flops = student.function("matmul_flops")(student.made("rows", [line(row)]))
        assert_equal(flops, right, what=f"matmul_flops of {name} of {inputs}")


@pytest.mark.points(4)
@pytest.mark.requires("test_flops")
@pytest.mark.place("matmul_flops")
@pytest.mark.hint("Begin at 0, and add what each call of the four operators takes.")
def test_flops_add_up(student: Student) -> None:
    """The products of many calls add up, none give 0, and calls stay as they are."""
    rows = products()
    calls = student.made("rows", [line(row) for row in rows] * 2)
    total = sum(count for *_, count in rows)
    flops = student.function("matmul_flops")
    assert_equal(flops(student.made("rows", [])), 0, what="matmul_flops of 0 calls")
    assert_equal(flops(calls), total * 2, what=f"matmul_flops of {2 * len(rows)} calls")
    laws.check_changes_nothing(student, "matmul_flops", calls)
    own, why = ["torch.utils.flop_counter."], "work it out from the shapes"
    laws.check_not_used(student, "matmul_flops", calls, functions=own, why=why)


def drawn() -> dict[str, Tensor]:
    """The tensors of a program."""
    m, k, n = sorted(random.sample(range(2, 9), 3))
    factors = {"a": torch.randn(m, k), "b": torch.randn(k, n), "c": torch.randn(n)}
    return {**factors, "i": torch.tensor([k - 1, 0])}


def compared(student: Student, *groups: str) -> Iterator[tuple[str, Any, list[Any], list[Any]]]:
    """Each program, the report of it, and its calls and results here."""
    for programs in map(str.splitlines, groups):
        tensors = drawn()
        reports = entry(student.run("recorded", programs, tensors), count=len(programs))
        for program, report in zip(programs, reports, strict=True):
            scope = {"torch": torch, **{name: tensor.clone() for name, tensor in tensors.items()}}
            CALLS.clear()
            with Reference():  # type: ignore[no-untyped-call]
                exec(program, scope)  # one of those above
            result: Any = scope["result"]
            results = result if isinstance(result, tuple) else (result,)
            values = [r.detach() if isinstance(r, Tensor) else r for r in results]
            yield program, report, list(CALLS), values


def check_programs(student: Student, programs: str, exact: bool = False) -> None:
    """The calls of each program are recorded rightly, and its results are those without a logger."""
    for program, report, reference, results in compared(student, programs):
        what = f"logger.calls of `{program}`"
        check_calls(entry(report, "calls"), reference, what, exact)
        assert_close(entry(report, "values"), results, what=f"the results of `{program}`")


def check_calls(calls: Any, right: list[Any], what: str, exact: bool = False) -> None:
    """Compare the calls; names in full and the form of a call count in one test, where `exact`."""
    calls = entry(calls, kind=list, told=f"There is no list where {what} should be.")
    for call in calls:
        name, *sides = entry(call, kind=(list, tuple), count=3)
        entry(call, 0, kind=str, told=f"A name in {what} is not a str: take str(func).")
        told = f"In {what} {name[:80]} has something else than one tuple(tensor.shape) for each tensor."
        for shapes in sides:
            for shape in entry(shapes, kind=(list, tuple), told=told):
                entry(shape, kind=(list, tuple), told=told)
                if exact:
                    good = isinstance(shape, tuple) and all(type(n) is int for n in shape)
                    assert good, told
        if exact:
            assert isinstance(call, list), f"In {what} {name[:80]} is not an OperatorCall."
    words = in_words if exact else in_few_words
    assert_equal(words(calls), words(right), what=what)


def in_words(calls: list[Any]) -> list[str]:
    """Each call as "aten.cat.default of [(2, 3), (1, 3)] gives [(3, 3)]"."""
    return [f"{name} of {[*map(tuple, x)]} gives {[*map(tuple, y)]}" for name, x, y in calls]


def in_few_words(calls: list[Any]) -> list[str]:
    """Each call as "cat of [(2, 3), (1, 3)] gives [(3, 3)]", without shapes of numbers."""
    rows = []
    for name, *sides in calls:
        operator = name.removeprefix("aten").lstrip(".:").split(".")[0]
        rows.append([operator, *[[shape for shape in side if shape] for side in sides]])
    return in_words(rows)


def check_errors(student: Student, name: str, where: str) -> None:
    texts = ["RuntimeError: mat1", "IndexError: select", "KeyError: 'no key'", "SystemExit: stop"]
    reports = entry(student.run("stopped", name, torch.randn(2, 3)), kind=list, count=4)
    for report, right in zip(reports, texts, strict=True):
        came, modes = entry(report, kind=list, count=2)
        told = f"In {where} {right} is raised; what comes out is {str(came)[:80]}: catch nothing."
        assert str(came).startswith(right), told
        assert modes == 0, f"A mode is still on after an error in {where}: leave it in any case."
