"""Write flow matching: learn a velocity that carries noise to data.

Time goes from 0 to 1: at t = 0 there is noise x0, drawn from the standard normal distribution, and at t = 1
there is data x1. Between the two, a point moves on a straight line at a constant velocity:

    x_t = (1 - t) * x0 + t * x1         the derivative by t is x1 - x0

A model learns this velocity from x_t and t, without knowing x0 and x1. Many lines cross at x_t, and what it
learns there is their mean. To generate, follow it from new noise at t = 0 to t = 1.

`x0` and `x1` are (rows, ...), with at least two dimensions: points in the plane, or images. `t` is (rows,), of
their dtype: each row has a time of its own. A model is called as `model(x, t)`, with such tensors, and returns
the velocity, of the shape of `x`.

Source: Lipman et al. (2023), "Flow Matching for Generative Modeling", section 4.1; Liu et al. (2023), "Flow
Straight and Fast: Learning to Generate and Transfer Data with Rectified Flow", section 2.

What holds for every exercise: docs/every-exercise.md.
"""

import torch
from torch import Tensor, nn


def path(x0: Tensor, x1: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
    """Return `x_t` and its velocity, both of the shape of `x0`: where each row is, and how it moves."""
    # TODO: point on the line, and difference.
    raise NotImplementedError("path: point on the line, and difference")


def flow_matching_loss(
    model: nn.Module, x1: Tensor, generator: torch.Generator | None = None
) -> Tensor:
    """Return the loss of a batch of data: 0-d, with a graph.

    Draw noise of the shape of `x1` from the standard normal distribution, and for each row its own time, evenly
    from 0 to 1. The loss is the mean, over all elements, of the squared difference between what the model
    returns at x_t and the velocity of the path. Call the model once. Its mode stays as it is.

    All random numbers come from `generator`, or from the global state if it is None.
    """
    # TODO: draw noise and times, compare velocities.
    raise NotImplementedError("flow_matching_loss: draw noise and times, compare velocities")


def sample(model: nn.Module, x0: Tensor, steps: int) -> Tensor:
    """Follow the model's velocity from the noise `x0` at t = 0 to t = 1, in equal steps of Euler's method.

    A step moves x by the velocity at its beginning, times the length of the step. There are `steps` of them, at
    least 1, and the model is called once in each.

    The model is in evaluation mode meanwhile; afterwards each submodule is in the mode in which it was, also if
    the model raises. The result has no graph. `x0` stays as it is.
    """
    # TODO: eval mode, no_grad, Euler steps.
    raise NotImplementedError("sample: eval mode, no_grad, Euler steps")
