# right: Python over rows and tokens; logsumexp, binary_cross_entropy_with_logits
from typing import NamedTuple

import torch


class DPOLoss(NamedTuple):
    loss: torch.Tensor
    chosen_rewards: torch.Tensor
    rejected_rewards: torch.Tensor


def sequence_log_probs(logits, tokens, mask):
    totals = []
    for row in range(len(logits)):
        total = logits.new_zeros(())
        for t in range(1, logits.shape[1]):
            if mask[row, t]:
                scores = logits[row, t - 1]
                total = total + scores[tokens[row, t]] - torch.logsumexp(scores, 0)
        totals.append(total)
    return torch.stack(totals)


def dpo_loss(chosen, rejected, reference_chosen, reference_rejected, beta=0.1):
    up = (chosen - reference_chosen.data) * beta
    down = (rejected - reference_rejected.data) * beta
    loss = torch.nn.functional.binary_cross_entropy_with_logits(up - down, torch.ones_like(up))
    return DPOLoss(loss, up.clone().detach(), down.clone().detach())
