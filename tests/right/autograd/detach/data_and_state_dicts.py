# right: .data everywhere, buffers by the state dict, the graph built and cut afterwards
import numpy
import torch


def to_numpy(x):
    return numpy.array(x.data.cpu().numpy(), copy=True)


def td_target(target_net, rewards, next_states, dones, gamma):
    expected = torch.Size([next_states.size(0)])
    for what, given in {"rewards": rewards, "dones": dones}.items():
        if given.size() != expected:
            raise ValueError("wrong shape of " + what)
    best = target_net(next_states.detach()).detach().amax(dim=-1)
    return torch.where(dones, rewards, rewards + gamma * best)


def td_loss(net, target_net, states, actions, rewards, next_states, dones, gamma):
    chosen = net(states).gather(1, actions[:, None])
    wanted = td_target(target_net, rewards, next_states, dones, gamma)[:, None]
    return torch.nn.functional.mse_loss(chosen, wanted)


def soft_update(target_net, net, tau):
    if tau < 0.0 or tau > 1.0:
        raise ValueError(f"tau = {tau}")
    source = dict(net.named_parameters())
    for name, parameter in target_net.named_parameters():
        parameter.data = (1 - tau) * parameter.data + tau * source[name].data
    saved = net.state_dict()
    for name, buffer in target_net.named_buffers():
        if name in saved:
            buffer.data = saved[name].clone()
