# right: as in TRL: a maximum of losses, padding filled with 0, divisions by clamped counts, NaN made 0
import torch


def group_advantages(rewards, eps=1e-4):
    mean = rewards.mean(-1).repeat_interleave(rewards.shape[1]).view_as(rewards)
    std = rewards.std(-1).nan_to_num(0.0).repeat_interleave(rewards.shape[1]).view_as(rewards)
    return (rewards - mean) / (std + eps)


def losses_of(log_probs, old_log_probs, advantages, clip):
    with torch.no_grad():
        advantages = advantages[:, None] + 0
        old_log_probs = old_log_probs + 0
    coef_1 = torch.exp(log_probs - old_log_probs)
    coef_2 = torch.clamp(coef_1, 1 - clip, 1 + clip)
    return torch.max(-coef_1 * advantages, -coef_2 * advantages)


def clipped_objective(log_probs, old_log_probs, advantages, clip=0.2):
    return -losses_of(log_probs, old_log_probs, advantages, clip)


def kl_estimate(log_probs, reference_log_probs):
    reference = reference_log_probs.data
    return (reference - log_probs).exp() - (reference - log_probs) - 1


def grpo_loss(
    log_probs,
    old_log_probs,
    reference_log_probs,
    advantages,
    mask,
    clip=0.2,
    beta=0.04,
):
    per_token = losses_of(log_probs, old_log_probs, advantages, clip)
    if beta != 0.0:
        per_token = per_token + beta * kl_estimate(log_probs, reference_log_probs)
    per_token = per_token.masked_fill(~mask, 0)
    return torch.mean(per_token.sum(-1) / mask.float().sum(-1).clamp(min=1.0).to(per_token.dtype))
