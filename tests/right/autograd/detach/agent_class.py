# right: a class behind the functions, set_grad_enabled in try and finally, lists of foreach operators
import contextlib

import torch


class Learner:
    def __init__(self, target_net, gamma):
        self.target_net, self.gamma = target_net, gamma

    @staticmethod
    @contextlib.contextmanager
    def constant():
        before = torch.is_grad_enabled()
        torch.set_grad_enabled(False)
        try:
            yield
        finally:
            torch.set_grad_enabled(before)

    def target(self, rewards, next_states, dones):
        with self.constant():
            q, going_on = self.target_net(next_states), 1 - dones.to(rewards.dtype)
            index = q.argmax(dim=1, keepdim=True)
            return rewards + self.gamma * going_on * q.gather(1, index).squeeze(1)

    def loss(self, net, states, actions, rewards, next_states, dones):
        q = torch.index_select(net(states), 1, actions).diagonal()
        return (q - td_target(self.target_net, rewards, next_states, dones, self.gamma)).pow(2).mean()


def to_numpy(x):
    # A copy, so that nothing done to the array reaches x.
    return x.clone().detach().numpy().copy()


def td_target(target_net, rewards, next_states, dones, gamma):
    (n, *_) = next_states.shape
    if list(rewards.shape) != [n]:
        raise ValueError(f"`rewards` has shape {list(rewards.shape)}, not [{n}]")
    if list(dones.shape) != [n]:
        raise ValueError(f"`dones` has shape {list(dones.shape)}, not [{n}]")
    return Learner(target_net, gamma).target(rewards, next_states, dones)


def td_loss(net, target_net, states, actions, rewards, next_states, dones, gamma):
    return Learner(target_net, gamma).loss(net, states, actions, rewards, next_states, dones)


@torch.no_grad()
def soft_update(target_net, net, tau):
    if not 0.0 <= float(tau) <= 1.0:
        raise ValueError("bad tau")
    ours, theirs = list(target_net.parameters()), list(net.parameters())
    torch._foreach_lerp_(ours, theirs, float(tau))
    for buffer, value in zip(target_net.buffers(), net.buffers(), strict=True):
        buffer[...] = value
