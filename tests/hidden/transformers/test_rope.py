"""Tests of rotary position embedding."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from grader.judge.checks import (
    Cases,
    Draw,
    any_dtype,
    any_gradients,
    laws,
    promise,
    raises,
    within,
)
from grader.judge.student import Student

# Tolerances for a power of the base in float32, with exp and log or without.
POWERS = {"rtol": 1e-4, "atol": 1e-6}
# Tolerances for products and sums in float32.
SUMS = {"rtol": 1e-4, "atol": 1e-5}
# Tolerances for products in bfloat16, which may cancel out.
BFLOAT16 = {"rtol": 1.6e-2, "atol": 5e-2}
LAST = 2000


# --- the angles ----------------------------------------------------------------------------------


@promise(
    "rope_angles",
    points=7,
    hint="base ** (-torch.arange(0, dim, 2) / dim) has dim / 2 frequencies, from 1 downward.",
)
def test_angles(code: Student, draw: Draw) -> Cases:
    """Pair i turns by base ** (-2 i / dim) at position 1, and by p times as much at position p."""
    dim = 2 * draw.size(3, 20)
    angles = code.function("rope_angles")(torch.arange(6), dim)
    yield f"the angles of positions 0 to 5 for dim = {dim}", any_dtype(within(angles, **POWERS))


@promise("rope_angles", points=2, hint="base is an argument: 10000 is only its default.")
def test_base(code: Student, draw: Draw) -> Cases:
    """The frequencies are powers of the base that is given."""
    first, later = 1000 * draw.size(20, 500), 100 * draw.size(2, 50)
    for base in (first, later):
        angles = code.function("rope_angles")(torch.arange(4), 8, float(base))
        yield f"the angles for base = {base}", any_dtype(within(angles, **POWERS))


@promise("rope_angles", points=3, hint="Use the positions that you get, not torch.arange.")
def test_positions(code: Student, draw: Draw) -> Cases:
    """Positions may begin anywhere, be in any order, and have any shape; the angles are float32."""
    # One pair, whose frequency is 1, so that wrong frequencies fail only the tests above.
    for shape in [(5,), (2, 3), (2, 1, 4), ()]:
        positions = draw.integers(*shape, high=LAST)
        angles = code.function("rope_angles")(positions, 2)
        yield f"the angles of positions of shape {shape}", within(angles, **POWERS)


@promise(
    "rope_angles",
    hint="if dim % 2: raise a ValueError.",
    word="the sandbox says that it raised",
)
def test_odd_dim(code: Student, draw: Draw) -> Cases:
    """An odd dim is a ValueError that names it."""
    for dim in (1, 2 * draw.size() + 1):
        refusal = raises(ValueError, "dim", code.function("rope_angles"), torch.arange(3), dim)
        yield f"rope_angles with dim = {dim}", refusal


# --- turning -------------------------------------------------------------------------------------


@promise(
    "apply_rope",
    points=9,
    hint="first, second = x.chunk(2, dim=-1); first * cos - second * sin, and so on.",
)
def test_turns(code: Student, draw: Draw) -> Cases:
    """Feature i and feature i + dim / 2 are turned by angle i."""
    turned = code.function("apply_rope")(draw.normal(2, 3, 5, 8), random_angles(draw, 5, 4))
    yield "the result", any_gradients(within(turned, **SUMS))


@promise("apply_rope", points=3, hint="Name dimensions from behind, and let angles broadcast.")
def test_broadcasts(code: Student, draw: Draw) -> Cases:
    """The same angles serve all heads and sequences, or each sequence has its own."""
    for leading, angles in [((2, 3), ()), ((2, 3), (2, 1)), ((), ()), ((2, 1, 3), (1, 3))]:
        x = draw.normal(*leading, 5, 4)
        turned = code.function("apply_rope")(x, random_angles(draw, *angles, 5, 2))
        what = f"the result for x of shape {(*leading, 5, 4)} and angles of {(*angles, 5, 2)}"
        yield what, any_gradients(within(turned, **SUMS))


@promise(
    "apply_rope",
    points=3,
    hint="angles.cos() and angles.sin() first, and only then .to(x.dtype).",
)
def test_bfloat16(code: Student, draw: Draw) -> Cases:
    """For a bfloat16 x the result is bfloat16, and the angles are still those of float32."""
    x = draw.normal(1, 2, 6, 8, dtype=torch.bfloat16)
    turned = code.function("apply_rope")(x, half_turns(draw, 6, 4))
    yield "the result for large angles", any_gradients(within(turned, **BFLOAT16))


@promise("apply_rope", points=2, hint="No detach, no .data, no torch.no_grad().")
def test_gradients(code: Student, draw: Draw) -> Cases:
    """Gradients reach x, turned back."""
    x = draw.normal(1, 2, 5, 8, grad="x")
    turned = code.function("apply_rope")(x, random_angles(draw, 5, 4))
    yield "the result", within(turned, **SUMS)


@promise(
    "apply_rope",
    hint="Compute new tensors: x[..., :half] = ... writes into x.",
    word="code that does nothing changes nothing",
)
def test_changes_nothing(student: Student) -> None:
    """x and the angles are left as they are."""
    laws.check_changes_nothing(student, "apply_rope", torch.randn(5, 8), torch.rand(5, 4))


# --- helpers of the tests ------------------------------------------------------------------------


def random_angles(draw: Draw, *shape: int) -> Tensor:
    return draw.uniform(*shape, low=0.0, high=2 * math.pi)


def half_turns(draw: Draw, *shape: int) -> Any:
    """Large angles for which the result is -x, however features are paired and whichever way they turn."""
    return math.pi * (2 * draw.integers(*shape, low=20, high=300) + 1)
