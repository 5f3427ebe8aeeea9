"""Cut the graph where a value is a constant: NumPy, targets that are learned from, target networks.

Deep Q-learning trains a network towards targets that are computed by a slow copy of it, the target network:

    target_i = reward_i + gamma * max over a of target_net(next_state_i)[a]     (reward_i alone at the end)
    loss     = mean over i of (net(state_i)[action_i] - target_i) ** 2

If a gradient flowed into the target, the loss could fall although nothing is learned. `x.detach()` has the
values of `x`, but no graph.

`net` and `target_net` map states (B, ...) to values (B, actions). Call neither train() nor eval().

Source: Mnih et al. (2015), "Human-level control through deep reinforcement learning"; Lillicrap et al. (2015),
"Continuous control with deep reinforcement learning".

What holds for every exercise: docs/every-exercise.md.
"""

import numpy as np
import torch
from torch import nn


def to_numpy(x: torch.Tensor) -> np.ndarray:
    """Return a NumPy array of the shape, dtype and values of `x`.

    `x` is float32, float64, int64 or bool, of any shape. It may require a gradient, as a leaf or as a result;
    then `x.numpy()` refuses. `x` and its graph stay as they are: backward through it still works.
    """
    # begin solution: leave the graph, then make the array
    # detach() makes a new tensor. detach_() and requires_grad_(False) would cut the caller's own.
    return x.detach().numpy()
    # end solution


def td_target(
    target_net: nn.Module,
    rewards: torch.Tensor,
    next_states: torch.Tensor,
    dones: torch.Tensor,
    gamma: float,
) -> torch.Tensor:
    """Return the target of each of B transitions, of shape (B,).

    For transition i it is `rewards[i] + gamma * max(target_net(next_states)[i])`, the maximum over the actions.
    Where `dones[i]` is True the game is over, and the target is `rewards[i]` alone.

    - `rewards` (B,) require no gradient, `next_states` (B, ...) may, `dones` (B,) are bool. B may be 0.
    - The result has no graph, and it is not an inference tensor: a later backward pass cannot use what
      `torch.inference_mode()` makes.

    Raises ValueError that names `rewards` or `dones` if its shape is not (B,), B the number of rows of
    `next_states`: (B, 1) would broadcast to (B, B).
    """
    # begin solution: check the shapes, then reward and future, as a constant
    for name, tensor in (("rewards", rewards), ("dones", dones)):
        if tensor.shape != next_states.shape[:1]:
            raise ValueError(
                f"{name} must have shape ({len(next_states)},), one for each row of next_states, "
                f"got {tuple(tensor.shape)}"
            )
    # No graph is built at all. Not inference_mode: the loss has to save the target for its backward.
    with torch.no_grad():
        future: torch.Tensor = target_net(next_states).amax(dim=1)
        # A bool tensor has no `1 - dones`.
        return rewards + gamma * future * ~dones
    # end solution


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

    The prediction for transition i is `net(states)[i, actions[i]]`, the target is that of `td_target`. `states`
    are (B, ...), `actions` (B,) int64, the others as for `td_target`; B is at least 1.

    Gradients reach `net`, through `net(states)` only; none reaches `target_net` or `next_states`, even if `net`
    and `target_net` are the same module. Do not call backward.
    """
    # begin solution: the values of the actions taken, against a constant target
    # gather wants an index of as many dimensions; without the squeeze, (B, 1) against (B,) is (B, B).
    predictions: torch.Tensor = net(states).gather(1, actions.unsqueeze(1)).squeeze(1)
    targets = td_target(target_net, rewards, next_states, dones, gamma)
    return ((predictions - targets) ** 2).mean()
    # end solution


def soft_update(target_net: nn.Module, net: nn.Module, tau: float) -> None:
    """Move `target_net` a step towards `net`, in place. Both have the same structure.

    Every parameter of `target_net`, also a frozen one, becomes `(1 - tau) * target + tau * net`. Every buffer
    of the state dict becomes that of `net`, whatever `tau` is.

    - The parameters of `target_net` stay the same objects and leaves, because an optimizer may hold them. They
      may require a gradient, but the update is not in any graph.
    - `target_net` shares no memory with `net`, not even if `tau` is 1, and nothing in it is an inference
      tensor.

    Raises ValueError that names `tau` if it is not within 0..1.
    """
    # begin solution: check tau, mix parameters, copy buffers
    if not 0 <= tau <= 1:
        raise ValueError(f"tau must be within 0 and 1, got {tau}")
    # Without no_grad a leaf that requires a gradient refuses to be changed in place.
    with torch.no_grad():
        for target, own in zip(target_net.parameters(), net.parameters(), strict=True):
            target.lerp_(own, tau)
        for buffer, new in zip(target_net.buffers(), net.buffers(), strict=True):
            # copy_ copies the values; an assignment would put net's own tensor there.
            buffer.copy_(new)
    # end solution
