# right: by cross_entropy with ignore_index, and softplus; a tuple of its own
import torch
import torch.nn.functional as F


def sequence_log_probs(logits, tokens, mask):
    labels = tokens.where(mask, -100)[:, 1:]
    losses = F.cross_entropy(
        logits[:, :-1].transpose(1, 2), labels, reduction="none", ignore_index=-100
    )
    return -losses.sum(1)


def dpo_loss(chosen, rejected, reference_chosen, reference_rejected, beta=0.1):
    with torch.no_grad():
        reference = reference_chosen - reference_rejected
        rewards = beta * (chosen - reference_chosen), beta * (rejected - reference_rejected)
    losses = F.softplus(-beta * (chosen - rejected - reference))
    return losses.mean(), *rewards
