"""Cut the graph where a value is a constant: NumPy, targets that are learned from, target networks.

`x.detach()` has the values of `x`, but no graph: for autograd it is a constant. Deep Q-learning needs that
at every step. A network is trained towards targets that are computed from its own predictions, or from those
of a slow copy of it, the target network:

    target_i = reward_i + gamma * max over a of target_net(next_state_i)[a]     (reward_i alone at the end)
    loss     = mean over i of (net(state_i)[action_i] - target_i) ** 2

If a gradient flowed into the target, too, the target would move towards the prediction, and the loss could
fall although nothing is learned.

Source: Mnih et al. (2015), "Human-level control through deep reinforcement learning"; Lillicrap et al.
(2015), "Continuous control with deep reinforcement learning", for the soft update.

`net` and `target_net` map states (B, ...) to values (B, actions), one for each action. They run in the mode
(training or evaluation) in which they are: call neither train() nor eval(). No function changes these modes,
`requires_grad` or `.grad` of a parameter, the tensors that it is given, or the global random state.
Floating-point tensors are float32 or float64, all of one call have the same dtype, and so has the result.
"""

import numpy as np
import torch
from torch import nn


def to_numpy(x: torch.Tensor) -> np.ndarray:
    """Return a NumPy array of the shape, dtype and values of `x`.

    `x` is a float32, float64, int64 or bool tensor of any shape and strides. It may require a gradient, as
    a leaf or as the result of other operations; then `x.numpy()` refuses, because NumPy has no graphs. `x`
    and its graph stay as they are: `x` still requires a gradient, and backward through it still works. The
    array may share memory with `x`.
    """
    # TODO: leave the graph, then make the array.
    raise NotImplementedError("to_numpy: leave the graph, then make the array")


def td_target(
    target_net: nn.Module,
    rewards: torch.Tensor,
    next_states: torch.Tensor,
    dones: torch.Tensor,
    gamma: float,
) -> torch.Tensor:
    """Return the target of each of B transitions, of shape (B,).

    For transition i it is `rewards[i] + gamma * max(target_net(next_states)[i])`, the maximum over the
    actions. Where `dones[i]` is True the game is over, and the target is `rewards[i]` alone.

    - `rewards` (B,) require no gradient, `next_states` (B, ...) may, `dones` (B,) are bool. B may be 0.
    - The result has no graph (`requires_grad` is False), and it is not an inference tensor: a later
      backward pass cannot use what `torch.inference_mode()` makes.

    Raises ValueError, naming the argument, if the shape of `rewards` or `dones` is not (B,), where B is the
    number of rows of `next_states`. With (B, 1), broadcasting would give (B, B).
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
    """Return the mean of the B squared differences between prediction and target, of shape ().

    The prediction for transition i is `net(states)[i, actions[i]]`, the target is
    `td_target(target_net, rewards, next_states, dones, gamma)[i]`. `states` has shape (B, ...), `actions`
    (B,) is int64, the others are as for `td_target`; B is at least 1.

    Gradients reach `net`, through `net(states)` only; none reaches `target_net` or `next_states`. The target
    is a constant even if `net` and `target_net` are the same module. Do not call backward: that is left to
    the caller.
    """
    # TODO: the values of the actions taken, against a constant target.
    raise NotImplementedError("td_loss: the values of the actions taken, against a constant target")


def soft_update(target_net: nn.Module, net: nn.Module, tau: float) -> None:
    """Move `target_net` a step towards `net`, in place.

    Both have the same structure. Every parameter of `target_net`, also a frozen one, becomes
    `(1 - tau) * target + tau * net`. Every buffer of the state dict becomes that of `net`, whatever `tau`
    is: buffers are not mixed (`num_batches_tracked` is an integer).

    - The parameters of `target_net` stay the same objects and leaves, because an optimizer may hold them.
      They may require a gradient, but the update is not in any graph.
    - `net` stays as it is, and `target_net` shares no memory with it, not even if `tau` is 1: training
      `net` must not change `target_net`. Nothing in `target_net` is an inference tensor.

    Raises ValueError, naming `tau`, if it is not within 0..1, before anything changes.
    """
    # TODO: check tau, mix parameters, copy buffers.
    raise NotImplementedError("soft_update: check tau, mix parameters, copy buffers")
