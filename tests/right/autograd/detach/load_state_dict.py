# right: the mixed state is loaded as a whole; a one-hot sum picks the action
import torch
import torch.nn.functional as F


def to_numpy(x):
    with torch.no_grad():
        return x.clone().contiguous().numpy()


@torch.no_grad()
def td_target(target_net, rewards, next_states, dones, gamma):
    rows = next_states.shape[0]
    if tuple(rewards.shape) != (rows,) or tuple(dones.shape) != (rows,):
        raise ValueError(f"rewards and dones must both have shape ({rows},)")
    q = target_net(next_states)
    best, _ = torch.max(q, dim=1)
    best = best.masked_fill(dones, 0.0)
    return torch.add(rewards, best, alpha=gamma)


def td_loss(net, target_net, states, actions, rewards, next_states, dones, gamma):
    target = td_target(target_net, rewards, next_states, dones, gamma)
    q = net(states)
    chosen = (q * F.one_hot(actions, q.shape[1])).sum(dim=1)
    return torch.mean(torch.square(target - chosen))


def soft_update(target_net, net, tau):
    assert_within(tau)
    names = {name for name, _ in target_net.named_parameters()}
    old, new = target_net.state_dict(), net.state_dict()
    mixed = {n: (1 - tau) * old[n] + tau * new[n] if n in names else new[n] for n in old}
    target_net.load_state_dict(mixed)


def assert_within(tau):
    if 0 <= tau <= 1:
        return
    raise ValueError("tau: between 0 and 1, please")
