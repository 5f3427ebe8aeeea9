"""What cross_entropy, looks_like_probabilities and double_softmax_floor promise, sentence by sentence."""

import math
import random
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, assert_tensor, laws, must_raise
from grader.judge.student import Student

DTYPES = (torch.float64, torch.float32)


class Case(NamedTuple):
    """The arguments of a call."""

    logits: Tensor
    targets: Tensor
    weight: Tensor | None = None
    label_smoothing: float = 0.0
    ignore_index: int = -100

    @property
    def words(self) -> str:
        """What a message calls the result."""
        given = ["weight"] * (self.weight is not None)
        for name in ("label_smoothing", "ignore_index"):
            value = getattr(self, name)
            given += [] if value == Case._field_defaults[name] else [f"{name}={value}"]
        options = f" with {', '.join(given)}" if given else ""
        return f"cross_entropy of {str(self.logits.dtype)[6:]} logits {tuple(self.logits.shape)}{options}"


# --- cross_entropy: the value -----------------------------------------------------------------------


@pytest.mark.points(12)
@pytest.mark.place("cross_entropy")
@pytest.mark.hint("logits.logsumexp(dim=1) less the logit of the target, and the mean over rows.")
def test_values(student: Student) -> None:
    """The loss is the mean over the rows of -log p of the target, from logits."""
    for dtype in DTYPES:
        for shape in ((6, 4), (3, 5), (1, 3), (40, 7)):
            check(student, new_case(shape, dtype))


@pytest.mark.points(6)
@pytest.mark.requires("test_values")
@pytest.mark.place("cross_entropy")
@pytest.mark.hint("costs.sum() / weight[targets].sum()")
def test_weight(student: Student) -> None:
    """Rows count by the weight of their target, and the sum is divided by the sum of those weights."""
    for dtype in DTYPES:
        for shape in ((6, 4), (9, 3), (1, 3)):
            check(student, new_case(shape, dtype, weight=True))
    case = new_case((8, 3), weight=True)
    check(student, case._replace(weight=torch.tensor([0.0, 2.0, 0.5]).double()))


@pytest.mark.points(6)
@pytest.mark.requires("test_values")
@pytest.mark.place("cross_entropy")
@pytest.mark.hint(
    "q is label_smoothing / C everywhere, and 1 - label_smoothing more at the target."
)
def test_smoothing(student: Student) -> None:
    """label_smoothing is spread evenly over all C classes, each with its own weight."""
    for weight in (False, True):
        for smoothing, kind in ((0.3, 0), (1, 0), (0.05, 1), (1.0, 1)):
            check(student, new_case((6, 4), DTYPES[kind], weight=weight, smoothing=smoothing))
    for smoothing in (0.0, 0.4):
        check(student, new_case((3, 1), weight=True, smoothing=smoothing))
    check_gradients(student, new_case((7, 4), weight=True, smoothing=0.3))


@pytest.mark.points(6)
@pytest.mark.requires("test_values")
@pytest.mark.place("cross_entropy")
@pytest.mark.hint("kept = targets != ignore_index, and nothing else of the other rows anywhere.")
def test_ignored(student: Student) -> None:
    """Rows whose target is ignore_index, which may be a class, add nothing, whatever else is asked."""
    options: Any = ((False, 0), (True, 0.3), (True, 0), (False, 0.3))
    for i, ignore in enumerate((-100, 2, 2, 0, 0, 9, -1, -1)):
        weight, smoothing = options[(i + i // 4) % 4]
        case = new_case((9, 4), weight=weight, smoothing=smoothing)
        targets = case.targets.clone()
        targets[[1, 4, 8]] = ignore
        check(student, case._replace(targets=targets, ignore_index=ignore))


@pytest.mark.points(2)
@pytest.mark.requires("test_values")
@pytest.mark.place("cross_entropy")
@pytest.mark.hint("A sum of nothing divided by a sum of nothing is 0 / 0, which is NaN in torch.")
def test_nothing_kept(student: Student) -> None:
    """Where no row is kept the loss is NaN: all are ignored, or there is none."""
    for rows, ignore, weight in ((3, -100, False), (0, -100, False), (2, 1, True), (1, 7, False)):
        for dtype in DTYPES:
            case = new_case((rows, 4), dtype, weight=weight, smoothing=0.3 * weight)
            case = case._replace(targets=torch.full((rows,), ignore), ignore_index=ignore)
            none, what = torch.zeros((), dtype=dtype), f"{case.words}, none of them kept,"
            assert_close(result(student, case, what), none + math.nan, what=what)


# --- cross_entropy: large logits, gradients, and the rest -------------------------------------------


@pytest.mark.points(16)
@pytest.mark.requires("test_values")
@pytest.mark.place("cross_entropy")
@pytest.mark.hint(
    "logits - logits.logsumexp(dim=1, keepdim=True): no exp, softmax or log of your own."
)
def test_large_logits(student: Student) -> None:
    """Loss and gradients are finite and exact for logits up to 1e4, whatever stands beside them."""
    why = "exp of a large logit is inf, log of a probability rounded to 0 is -inf. Use logsumexp"
    far, small = [1e4, -1e4, 30.0], [0.5, -1.0, 2.0]
    batches = {
        "the target's the largest": ([far, [-50.0, 9e3, 8.9e3]], [0, 1]),
        "the target's far below": ([far, [1e4, 9e3, -1e4]], [1, 2]),
        "all alike": ([[1e4, 9999.0, 1e4], [-1e4, -1e4, -9998.5]], [1, 0]),
        "a row of 1e4 beside small ones": ([far, small, [-0.5, 0.25, -2.0]], [0, 1, 2]),
        "a row of -1e4 beside small ones": ([[-1e4, -1e4, -9999.0], small], [2, 1]),
        "rows of 150 and -150 beside small ones": ([[150.0, -150, 0], [-150.0] * 3, small], [0, 2, 1]),
    }  # fmt: skip
    for dtype in DTYPES:
        loose: Any = {"rtol": 1e-3, "atol": 1e-3} if dtype == torch.float32 else {}
        for name, (rows, targets) in batches.items():
            x = torch.tensor(rows, dtype=dtype, requires_grad=True)
            case = Case(x, torch.tensor(targets))
            what = f"{case.words}, {name},"
            output = result(student, case, what)
            laws.check_large_inputs(output, {"logits": x}, what=what, why=why)
            wide: Any = case._replace(logits=x.detach().double().requires_grad_())
            value = right(wide).detach().to(dtype)
            assert_close(output.detach(), value, what=what, **loose)
            right(wide).backward()
            what = f"the gradient of {what}"
            assert_close(x.grad, wide.logits.grad.to(dtype), what=what, **loose)


@pytest.mark.points(6)
@pytest.mark.requires("test_values")
@pytest.mark.place("cross_entropy")
@pytest.mark.hint("Stay in the graph: no detach, no .item(), no NumPy, no tensor made of numbers.")
def test_gradients(student: Student) -> None:
    """Gradients reach the logits, and are zero in the ignored rows."""
    for weight, ignore in ((False, -100), (True, 2), (True, -1)):
        case = new_case((7, 4), weight=weight)
        targets = case.targets.clone()
        targets[[0, 5]] = ignore
        check_gradients(student, case._replace(targets=targets, ignore_index=ignore))


@pytest.mark.points(5)
@pytest.mark.place("cross_entropy")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Targets left after ignore_index are in 0..C-1, label_smoothing is in [0, 1].")
def test_errors(student: Student) -> None:
    """Other targets outside 0..C-1 and a label_smoothing outside [0, 1] are ValueErrors."""
    logits = torch.randn(3, 4)
    for targets, ignore in (([0, -1, 2], -100), ([4, 1, 2], -100), ([0, 1, 1000], -1), ([-2] * 3, -1),
                            ([0, -4, 1], 0), ([1, 2, -100], 0), ([4, 4, 5], 4), ([2, 2, -1], 2)):  # fmt: skip
        fine = torch.tensor([t if t in range(4) else ignore for t in targets])
        result(student, Case(logits, fine, ignore_index=ignore), "cross_entropy of good targets")
        call = f"cross_entropy for C = 4, the targets {targets} and ignore_index={ignore}"
        if min(targets) < 0:
            call = f"a negative target neither counts from the end nor is ignored: {call}"
        with must_raise(ValueError, mentions="targets", call=call):
            student.function("cross_entropy")(logits, torch.tensor(targets), ignore_index=ignore)
    given: Any = logits, torch.tensor([1, 0, 3])
    refused: list[Any] = [(*given, None, smoothing) for smoothing in (-0.01, 1.01, -1, 2)]
    table = {"label_smoothing": refused}
    laws.check_errors(student, "cross_entropy", table, fine=(*given, None, 1.0))


@pytest.mark.points(4)
@pytest.mark.requires("test_values")
@pytest.mark.place("cross_entropy")
@pytest.mark.hint("Make new tensors: targets[ignored] = 0 writes into the caller's.")
def test_laws(student: Student) -> None:
    """The loss is 0-d and of the dtype of the logits, which may have any strides; nothing is changed."""
    for dtype in DTYPES:
        logits, targets, weight, *_ = new_case((6, 4), dtype, weight=True)
        ignored = targets.clone()
        ignored[2] = -100
        for i, x in enumerate(laws.kinds_of(logits)[dtype == torch.float32 :: 2]):
            more = (targets, weight, 0.3, 1) if i else (ignored,)
            laws.check_changes_nothing(student, "cross_entropy", x, *more)
    laws.check_dtypes(student, "cross_entropy", logits, targets, what="the loss")
    laws.check_layouts(student, "cross_entropy", logits, targets, what="the loss")
    wide = new_case((6, 4), weight=True, smoothing=0.3)
    logits = wide.logits
    loss = student.function("cross_entropy")(logits, targets)
    assert_tensor(loss, shape=(), what="the loss")
    laws.check_float64(loss, F.cross_entropy(logits, targets), what="the loss")
    for case in (wide, wide._replace(weight=None, label_smoothing=0.0)):
        check_smooth(student, case)


# --- looks_like_probabilities -----------------------------------------------------------------------


@pytest.mark.points(6)
@pytest.mark.place("looks_like_probabilities")
@pytest.mark.hint("(outputs >= 0).all(), and the sum of every row within 1e-4 of 1.")
def test_probabilities(student: Student) -> None:
    """True for outputs of a softmax, False for logits, outputs of a sigmoid, log-probabilities, NaN."""
    for dtype in DTYPES:
        x = 3 * torch.randn(5, 4, dtype=dtype)
        p, first = x.softmax(1), F.one_hot(torch.tensor([0] * 5), 4).to(dtype)
        wide, nan = (
            torch.randn(2, 1000, dtype=dtype).softmax(1),
            torch.where(first > 0, math.nan, p),
        )
        less = x - x.sum(1, keepdim=True) / 4 + 0.25
        outputs = {
            "outputs of a softmax": (p, True),
            "outputs of a softmax over 1000 classes": (wide, True),
            "probabilities of 0 and 1": (torch.eye(4, dtype=dtype)[:3], True),
            "the only class's probability": (torch.ones(3, 1, dtype=dtype), True),
            "one row of probabilities": (p[:1], True),
            "logits": (x, False),
            "logits above 0": (x.abs() + 0.1, False),
            "logits whose rows sum to 1": (less, False),
            "outputs of a sigmoid": (x.sigmoid(), False),
            "log-probabilities": (x.log_softmax(1), False),
            "zeros": (torch.zeros(3, 4, dtype=dtype), False),
            "NaN": (x * math.nan, False),
            "probabilities with a NaN in each row": (nan, False),
        }
        check_looks(student, outputs)


@pytest.mark.points(4)
@pytest.mark.requires("test_probabilities")
@pytest.mark.place("looks_like_probabilities")
@pytest.mark.hint("Over the classes, dim=1, and .all() over the rows.")
def test_every_row(student: Student) -> None:
    """Every single row has to be one of probabilities; without rows it is False."""
    p = (2 * torch.randn(5, 3).double()).softmax(1)
    outputs = {"outputs of a softmax": (p, True), "no rows": (p[:0], False)}
    for row in (0, 4):
        negative, bad, nan = p.clone(), p.clone(), p.clone()
        nan[row], bad[row] = torch.tensor([0.6, math.nan, 0.4]), torch.tensor([0.2, 0.3, 0.1])
        negative[row] = torch.tensor([0.7, -0.1, 0.4])
        outputs[f"probabilities but for row {row}, which sums to 0.6,"] = (bad, False)
        outputs[f"probabilities but for an entry below 0 in row {row}"] = (negative, False)
        outputs[f"probabilities but for a NaN in row {row}"] = (nan, False)
    outputs["rows that sum to 0.5 and 1.5"] = (torch.tensor([[0.2, 0.3], [0.7, 0.8]]), False)
    outputs["columns, not rows, that sum to 1"] = (torch.randn(5, 3).softmax(0), False)
    outputs["a square whose columns, not rows, sum to 1"] = (torch.randn(3, 3).softmax(0), False)
    check_looks(student, outputs)


@pytest.mark.points(2)
@pytest.mark.requires("test_probabilities")
@pytest.mark.place("looks_like_probabilities")
@pytest.mark.hint("(outputs.sum(dim=1) - 1).abs() <= 1e-4, and entries not below 0 at all.")
def test_tolerance(student: Student) -> None:
    """Sums may be off by 1e-4, entries may not be below 0; outputs stay as they are."""
    for dtype in DTYPES:
        p = torch.randn(4, 3, dtype=dtype).softmax(1)
        outputs = {}
        for off in (8e-5, -8e-5, 1.5e-4, -1.5e-4, 1e-2):
            moved = p.clone()
            moved[1] *= 1 + off
            outputs[f"probabilities of which a row sums to {1 + off:.5f}"] = (
                moved,
                abs(off) < 1e-4,
            )
        below = torch.tensor([[0.5, 0.5, -1e-6], [0.2, 0.3, 0.5]], dtype=dtype)
        outputs["probabilities but for one entry, -1e-6,"] = (below, False)
        outputs["probabilities with an entry -0.0"] = (torch.tensor([[-0.0, 1.0]]).to(dtype), True)
        check_looks(student, outputs)
        for x in (p, 3 * torch.randn(4, 3, dtype=dtype)):
            laws.check_changes_nothing(student, "looks_like_probabilities", laws.kinds_of(x)[2])


# --- double_softmax_floor ---------------------------------------------------------------------------


@pytest.mark.points(4)
@pytest.mark.place("double_softmax_floor")
@pytest.mark.hint("math.log(1 + (num_classes - 1) / math.e), after the check of num_classes.")
def test_floor(student: Student) -> None:
    """The floor is log(1 + (num_classes - 1) / e); a num_classes below 1 is a ValueError."""
    for classes in (random.randint(3, 40), random.randint(200, 2000), 2, 1):
        value = student.function("double_softmax_floor")(classes)
        what = f"double_softmax_floor({classes})"
        assert_close(value, math.log(1 + (classes - 1) / math.e), what=what)
    calls: list[Any] = [(0,), (-1,), {"num_classes": -5}]
    laws.check_errors(student, "double_softmax_floor", {"num_classes": calls})


# --- the right answers --------------------------------------------------------------------------------


def new_case(
    shape: tuple[int, int], dtype: Any = torch.float64, weight: bool = False, smoothing: float = 0.0
) -> Case:
    """Random logits of some spread, targets among which every class occurs where there is room."""
    rows, classes = shape
    targets = (torch.arange(rows) % classes)[torch.randperm(rows)]
    weights = torch.rand(classes, dtype=dtype) * 3 + 0.1 if weight else None
    return Case(2 * torch.randn(shape, dtype=dtype), targets, weights, smoothing)


def result(student: Student, case: Case, what: str) -> Tensor:
    """The student's loss: some arguments by position, the last ones by name, defaults left out."""
    logits, targets, weight, smoothing, ignore = case
    more: dict[str, Any] = {} if ignore == -100 else {"ignore_index": ignore}
    more |= {} if not smoothing else {"label_smoothing": smoothing}
    weights = () if weight is None else (weight,)
    value = student.function("cross_entropy")(logits, targets, *weights, **more)
    value = assert_tensor(value, dtype=logits.dtype, what=what)
    return value.reshape(()) if value.shape == (1,) else value  # its shape has tests of its own


def check(student: Student, case: Case) -> None:
    value = result(student, case, case.words).detach()
    assert_close(value, right(case), what=case.words)


def check_gradients(student: Student, case: Case) -> None:
    case.logits.requires_grad_()
    laws.check_gradients(
        result(student, case, case.words),
        {"logits": case.logits},
        lambda x: right(case._replace(logits=x)),
        what=case.words,
    )


def check_smooth(student: Student, case: Case) -> None:
    """Along a direction, the loss in float64 follows its slope."""
    direction = torch.rand_like(case.logits)
    x = torch.zeros((), dtype=torch.float64, requires_grad=True)
    right(case._replace(logits=case.logits + x * direction)).backward()
    assert x.grad is not None

    def loss(x: Tensor) -> Tensor:
        moved = case._replace(logits=case.logits + x * direction)
        return result(student, moved, case.words).detach()

    laws.check_smooth(loss, x.grad, x.detach(), what="the loss")


def right(case: Case) -> Tensor:
    logits, targets, weight, smoothing, ignore = case
    return F.cross_entropy(logits, targets, weight, ignore_index=ignore, label_smoothing=smoothing)


def check_looks(student: Student, outputs: dict[str, tuple[Tensor, bool]]) -> None:
    """Ask in a drawn order, so that no list of answers fits."""
    looks = student.function("looks_like_probabilities")
    answers = {name: looks(outputs[name][0]) for name in random.sample([*outputs], len(outputs))}
    for name, (_, right) in outputs.items():
        assert_equal(answers[name], right, what=f"the answer for {name}")
