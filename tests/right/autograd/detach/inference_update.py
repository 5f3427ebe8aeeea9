# right: soft_update in inference_mode, where changing ordinary tensors in place is fine
import torch
from torch.nn.functional import mse_loss


def to_numpy(x):
    return torch.Tensor.numpy(x, force=True)


def td_target(target_net, rewards, next_states, dones, gamma):
    if rewards.shape != next_states.shape[:1]:
        raise ValueError("rewards")
    if dones.shape != next_states.shape[:1]:
        raise ValueError("dones")
    with torch.inference_mode():
        future = gamma * torch.max(target_net(next_states), dim=1)[0] * torch.logical_not(dones)
    return rewards + future


def td_loss(net, target_net, states, actions, rewards, next_states, dones, gamma):
    target = td_target(target_net, rewards, next_states, dones, gamma)
    return mse_loss(net(states).take_along_dim(actions.view(-1, 1), 1).view(-1), target)


def soft_update(target_net, net, tau):
    if tau > 1 or tau < 0:
        raise ValueError("tau not in 0..1")
    with torch.inference_mode():
        for t, p in zip(target_net.parameters(), net.parameters(), strict=True):
            t.copy_(torch.lerp(t, p, float(tau)))
        for t, p in zip(target_net.buffers(), net.buffers(), strict=True):
            t.copy_(p)
