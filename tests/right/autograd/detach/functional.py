# right: functional_call, vmap, a scripted helper, all parameters as one vector
from functools import partial
from itertools import starmap
import numpy as np
import torch
from torch.func import functional_call, vmap
from torch.nn.utils import parameters_to_vector, vector_to_parameters

print("a helpful print at import")


@torch.jit.script
def bellman(rewards: torch.Tensor, future: torch.Tensor, dones: torch.Tensor, gamma: float) -> torch.Tensor:
    return rewards + gamma * future.masked_fill(dones, 0.0)


def to_numpy(x):
    if x.requires_grad:
        x = x.detach()
    return np.array(x.tolist(), dtype=x.numpy().dtype).reshape(tuple(x.shape))


def _same(name, value, rows):
    if list(value.shape) != [rows]:
        raise ValueError(name + " has the wrong shape")


def td_target(target_net, rewards, next_states, dones, gamma):
    list(starmap(partial(_same, rows=len(next_states)), [("rewards", rewards), ("dones", dones)]))
    state = {k: v.detach() for k, v in target_net.named_parameters()}
    values = functional_call(target_net, state, (next_states.detach(),))
    future, _ = torch.max(values, 1)
    return bellman(rewards, future, dones, float(gamma)).detach()


def td_loss(net, target_net, states, actions, rewards, next_states, dones, gamma):
    q = net(states)
    chosen = vmap(lambda row, a: row.take_along_dim(a[None], 0)[0])(q, actions)
    error = chosen - td_target(target_net, rewards, next_states, dones, gamma)
    return torch.dot(error, error) / error.numel()


@torch.no_grad()
def soft_update(target_net, net, tau):
    if not 0.0 <= float(tau) <= 1.0:
        raise ValueError("expected 0 <= tau <= 1")
    mine, theirs = list(target_net.parameters()), list(net.parameters())
    if mine:
        vector_to_parameters(parameters_to_vector(mine) * (1 - tau) + parameters_to_vector(theirs) * tau, mine)
    target_net.load_state_dict({k: v.clone() for k, v in net.named_buffers() if k in net.state_dict()}, strict=False)
