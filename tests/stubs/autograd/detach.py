"""Cut the graph where a value is a constant: NumPy, targets that are learned from, target networks.

`x.detach()` has the values of `x`, but no graph: for autograd it is a constant. Deep Q-learning needs that
at every step. A network is trained towards targets that are made of its own predictions, or of those of a
slow copy of it, the target network:

    target_i = reward_i + gamma * max over a of target_net(next_state_i)[a]     (reward_i alone at the end)
    loss     = mean over i of (net(state_i)[action_i] - target_i) ** 2

If a gradient flowed into the target as well, the target would move towards the prediction, too, and the loss
could fall without anything being learned.

Source: Mnih et al. (2015), "Human-level control through deep reinforcement learning"; Lillicrap et al.
(2015), "Continuous control with deep reinforcement learning", for the soft update.

These rules hold for all four functions. Floating-point tensors are float32 or float64, all those of a call
have one dtype, and so has the result. `net` and `target_net` map states (B, ...) to values (B, actions), one
for each action. They run in the mode (training or evaluation) in which you find them, each submodule of them:
call neither train() nor eval(). Their modes, the `requires_grad` of their parameters and the `.grad` of these
are afterwards what they were, and so are the tensors that you are given. You neither seed the global random
state nor draw from it. Each ValueError names the argument in its message.
"""

import numpy as np
import torch
from torch import nn


def to_numpy(x: torch.Tensor) -> np.ndarray:
    """Return a NumPy array of the shape, dtype and values of `x`.

    `x` is a float32, float64, int64 or bool tensor of any shape (0-d and empty ones too) and any strides. It
    may require a gradient, as a leaf or as the result of other operations: NumPy knows nothing of graphs,
    and `x.numpy()` refuses. `x` and its graph stay as they are: afterwards `x` requires a gradient as
    before, and backward through it still works. Whether the array shares memory with `x` is up to you.
    """
    # TODO: an array of x's values, without its graph.
    raise NotImplementedError("to_numpy: an array of x's values, without its graph")


def td_target(
    target_net: nn.Module,
    rewards: torch.Tensor,
    next_states: torch.Tensor,
    dones: torch.Tensor,
    gamma: float,
) -> torch.Tensor:
    """Return what each of B transitions should have been worth, of shape (B,).

    For transition i that is `rewards[i] + gamma * max(target_net(next_states)[i])`, the maximum over the
    actions; where `dones[i]` is True the game is over, and it is `rewards[i]` alone.

    - `rewards` (B,) require no gradient, `next_states` (B, ...) may, `dones` (B,) are bool. B may be 0.
    - The result is an ordinary tensor without a graph: its `requires_grad` is False, whatever requires a
      gradient, and it is no inference tensor (what `torch.inference_mode()` makes cannot be saved for a
      backward pass later).

    Raises ValueError if `rewards` or `dones` have another shape than (B,), where B is the number of rows of
    `next_states`. (B, 1) is another shape: it would broadcast against (B,) to (B, B).
    """
    # TODO: check the shapes, then reward and future, as a constant.
    raise NotImplementedError("td_target: check the shapes, then reward and future, as a constant")


def td_loss(
    net: nn.Module,
    target_net: nn.Module,
    states: torch.Tensor,
    actions: torch.Tensor,
    rewards: torch.Tensor,
    next_states: torch.Tensor,
    dones: torch.Tensor,
    gamma: float,
) -> torch.Tensor:
    """Return the mean of the B squared differences of prediction and target, of shape ().

    The prediction for transition i is `net(states)[i, actions[i]]`, the target is
    `td_target(target_net, rewards, next_states, dones, gamma)[i]`. `states` has shape (B, ...), `actions` (B,)
    is int64, the others are as for `td_target`; B is at least 1.

    Gradients reach `net`, through `net(states)` only. None reaches `target_net`, nor `next_states`; `net` and
    `target_net` may be the same module, and even then the target is a constant. The loss comes with its graph:
    backward is left to the caller, and no `.grad` is cleared or changed here.
    """
    # TODO: the values of the actions taken, against a constant target.
    raise NotImplementedError("td_loss: the values of the actions taken, against a constant target")


def soft_update(target_net: nn.Module, net: nn.Module, tau: float) -> None:
    """Move `target_net` a step towards `net`, in place.

    Both have the same structure. Every parameter of `target_net`, frozen ones too, becomes
    `(1 - tau) * target + tau * net`; every buffer becomes that of `net`, whatever `tau` is: buffers are not
    mixed (`num_batches_tracked` is an integer). Buffers that are not in the state dict are up to you.

    - The parameters of `target_net` stay the same objects, leaves, with `requires_grad` and `.grad` as they
      were: an optimizer may hold them. They may require a gradient, and yet nothing of this is in a graph.
    - `net` stays as it is. Afterwards `target_net` shares no memory with it, at `tau` = 1 neither: training
      `net` must not change `target_net`. Nothing in `target_net` is an inference tensor.

    Raises ValueError if `tau` is not within 0..1, before anything changes.
    """
    # TODO: check tau, mix parameters, copy buffers.
    raise NotImplementedError("soft_update: check tau, mix parameters, copy buffers")
