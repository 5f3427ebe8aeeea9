"""Write GRPO, group relative policy optimization: reinforcement learning for language models without a critic.

For each prompt, a model writes a group of completions, and each one gets a reward. What counts is how much
better a completion is than its group. All of its tokens are then made more likely, or less likely:

    advantage = (reward - mean of its group) / (standard deviation of its group + eps)
    ratio     = p(token) / p_old(token)
    objective = min(ratio * advantage, clip(ratio, 1 - clip, 1 + clip) * advantage)
    loss      = -(objective - beta * KL)            averaged as `grpo_loss` says

The *old* model is the one that wrote the completions: after a few steps on them, the model is another. The
minimum takes away the reason to go further than the clip, and never the reason to come back. The *reference* is
the model from before the training, and KL keeps the model near it.

Log-probabilities are (completions, length), one for each token. Source: Shao et al. (2024), "DeepSeekMath",
section 4.1.

What holds for every exercise: docs/every-exercise.md.
"""

import torch
from torch import Tensor


def group_advantages(rewards: Tensor, eps: float = 1e-4) -> Tensor:
    """Return the advantage of each completion: (prompts, group), as the rewards.

    - Mean and standard deviation are those of a row. The deviation divides by group - 1, as `torch.std` does.
    - A group of one has no deviation, and nothing to be compared with: its advantage is 0.
    """
    # TODO: subtract the mean, divide by the deviation.
    raise NotImplementedError("group_advantages: subtract the mean, divide by the deviation")


def clipped_objective(
    log_probs: Tensor, old_log_probs: Tensor, advantages: Tensor, clip: float = 0.2
) -> Tensor:
    """Return the objective of each token: (completions, length).

    `log_probs` and `old_log_probs` are (completions, length), `advantages` (completions,).

    Gradients reach `log_probs`. None reaches the other two, even if they require one.
    """
    # TODO: ratio, clipped ratio, the smaller product.
    raise NotImplementedError("clipped_objective: ratio, clipped ratio, the smaller product")


def kl_estimate(log_probs: Tensor, reference_log_probs: Tensor) -> Tensor:
    """Return an estimate of KL(model || reference) at each token: exp(d) - d - 1, of the shape of both.

    `d = reference_log_probs - log_probs`. The mean of `-d` over many tokens would be right, too, but a single
    one may be negative. This one never is, has the same mean, and varies less.

    Gradients reach `log_probs`. None reaches the reference's, even if they require one.
    """
    # TODO: the estimate, from the difference.
    raise NotImplementedError("kl_estimate: the estimate, from the difference")


def grpo_loss(
    log_probs: Tensor,
    old_log_probs: Tensor,
    reference_log_probs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    clip: float = 0.2,
    beta: float = 0.04,
) -> Tensor:
    """Return the loss, a 0-d tensor: the mean over the completions of the mean over their tokens.

    `mask` (completions, length), bool, is True at the tokens of a completion, of which each has at least one.
    The others are padding, and do not count.

    The mean of a completion is over its own tokens, however many, so that all completions count alike.
    Gradients reach `log_probs` only.
    """
    # TODO: objective and KL, the masked means.
    raise NotImplementedError("grpo_loss: objective and KL, the masked means")
