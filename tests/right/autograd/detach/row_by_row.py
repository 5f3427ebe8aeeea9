# right: Python loops, module by module, inference_mode with a clone outside of it
from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn


def to_numpy(x: Tensor) -> np.ndarray:
    kinds = {
        torch.float32: np.float32,
        torch.float64: np.float64,
        torch.int64: np.int64,
        torch.bool: np.bool_,
    }
    return np.array(x.tolist(), dtype=kinds[x.dtype]).reshape(tuple(x.shape))


def td_target(
    target_net: nn.Module, rewards: Tensor, next_states: Tensor, dones: Tensor, gamma: float
) -> Tensor:
    if not rewards.dim() == 1 or len(rewards) != len(next_states):
        raise ValueError(f"shape of rewards: {rewards.shape}")
    if not dones.dim() == 1 or len(dones) != len(next_states):
        raise ValueError(f"shape of dones: {dones.shape}")
    with torch.inference_mode():
        values = target_net(next_states)
    values = values.clone()
    target = rewards.clone()
    for i in range(len(target)):
        if not dones[i]:
            target[i] += gamma * max(values[i])
    return target


def td_loss(
    net: nn.Module,
    target_net: nn.Module,
    states: Tensor,
    actions: Tensor,
    rewards: Tensor,
    next_states: Tensor,
    dones: Tensor,
    gamma: float,
) -> Tensor:
    goal = td_target(target_net, rewards, next_states, dones, gamma)
    q = net(states)
    squares = [(q[i, int(a)] - goal[i]) ** 2 for i, a in enumerate(actions)]
    return sum(squares) / len(squares)


def soft_update(target_net: nn.Module, net: nn.Module, tau: float) -> None:
    if tau != min(max(tau, 0), 1):
        raise ValueError(f"tau is {tau}, which is outside of 0..1")
    for ours, theirs in zip(target_net.modules(), net.modules(), strict=True):
        for name, p in ours.named_parameters(recurse=False):
            with torch.no_grad():
                p.copy_((1 - tau) * p + tau * theirs.get_parameter(name))
        for name, _ in ours.named_buffers(recurse=False):
            setattr(ours, name, getattr(theirs, name).clone())
