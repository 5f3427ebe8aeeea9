# right: plain and short; most of the wrong answers are changes of it
import torch


def to_numpy(x):
    return x.detach().numpy()


def td_target(target_net, rewards, next_states, dones, gamma):
    b = len(next_states)
    if rewards.shape != (b,):
        raise ValueError(f"rewards must have shape ({b},)")
    if dones.shape != (b,):
        raise ValueError(f"dones must have shape ({b},)")
    with torch.no_grad():
        future = target_net(next_states).max(1).values
    return rewards + gamma * future * ~dones


def td_loss(net, target_net, states, actions, rewards, next_states, dones, gamma):
    q = net(states)[torch.arange(len(states)), actions]
    y = td_target(target_net, rewards, next_states, dones, gamma)
    return ((q - y) ** 2).mean()


def soft_update(target_net, net, tau):
    if not 0 <= tau <= 1:
        raise ValueError("tau must be in [0, 1]")
    with torch.no_grad():
        for t, p in zip(target_net.parameters(), net.parameters()):
            t.mul_(1 - tau).add_(p, alpha=tau)
        for t, p in zip(target_net.buffers(), net.buffers()):
            t.copy_(p)
