"""Write the cross-entropy loss from logits, and recognize what happens when a softmax comes in twice.

A classifier's last layer gives a row of C numbers, the *logits*. The softmax makes probabilities of them, and
the cross-entropy is the surprise at the right class, the *target*:

    p_c = exp(logit_c) / (exp(logit_1) + ... + exp(logit_C))        loss of a row = -log p_target

In these two steps it breaks: exp(1000) is inf. In one step it is exact for all logits:

    log p_c = logit_c - logsumexp(logits of the row)

That is why losses in PyTorch take logits. A network that ends in a softmax gives them probabilities: it even
learns, and gets stuck at a loss far above zero.

Source: PyTorch documentation, torch.nn.CrossEntropyLoss; Szegedy et al. (2016), "Rethinking the Inception
Architecture for Computer Vision", section 7 (label smoothing).

What holds for every exercise: docs/every-exercise.md.
"""

# begin solution: imports
import math

# end solution
from torch import Tensor


def cross_entropy(
    logits: Tensor,
    targets: Tensor,
    weight: Tensor | None = None,
    label_smoothing: float = 0.0,
    ignore_index: int = -100,
) -> Tensor:
    """Return the mean cross-entropy of the rows of `logits`: a 0-d tensor.

    `logits` is (N, C), `targets` (N,) int64, `weight`, if given, (C,) without negative entries. The result is
    that of `F.cross_entropy` with these arguments.

    With p = softmax of a row over its C classes, the row costs

        -sum over c of weight_c * q_c * log p_c        (without `weight`, every weight_c is 1)

    where q_c is `label_smoothing / C` for every class, the target included, and the target has
    `1 - label_smoothing` on top of it.

    - A row whose target is `ignore_index`, any number, is left out: it adds nothing and its logits get no
      gradient. `ignore_index` may also be a class, which takes part in the other rows all the same.
    - The sum of the other rows' costs is divided by the sum of the weights of their targets. If there are no
      such rows, the result is NaN.

    Value and gradient are finite and exact for logits up to 1e4 in magnitude, also where one row is huge and
    another one small. (For float32 logits above 100, to within 1e-3: logsumexp itself rounds there.)

    Not allowed: PyTorch's operators cross_entropy, nll_loss and log_softmax (`F.cross_entropy`,
    `nn.CrossEntropyLoss`, `nn.LogSoftmax`, ...). `torch.logsumexp`, `softmax` and `gather` are fine.

    Raises ValueError that names `targets` if a target is neither `ignore_index` nor in 0..C-1, or
    `label_smoothing` if it is outside [0, 1].
    """
    # begin solution: log p by logsumexp, then the weighted mean
    classes = logits.shape[1]
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"label_smoothing must be in [0, 1], got {label_smoothing}")
    kept = targets != ignore_index
    logits, targets = logits[kept], targets[kept]
    if ((targets < 0) | (targets >= classes)).any():
        raise ValueError(f"targets must be in 0..{classes - 1}, or {ignore_index}")
    if weight is None:
        weight = logits.new_ones(classes)
    log_p = logits - logits.logsumexp(dim=1, keepdim=True)
    of_target = weight[targets]
    hard = -of_target * log_p.gather(1, targets[:, None])[:, 0]
    smooth = -(log_p * weight).sum(dim=1) / classes
    costs = (1 - label_smoothing) * hard + label_smoothing * smooth
    # Without any row this is 0 / 0, which is NaN.
    return costs.sum() / of_target.sum()
    # end solution


def looks_like_probabilities(outputs: Tensor) -> bool:
    """Tell whether the outputs of a model, (N, C), have been through a softmax: True or False.

    They have if no entry is below 0 and every row sums to 1, to within 1e-4. Logits, log-probabilities and
    outputs of a sigmoid have not, nor has anything with a NaN. Without rows the answer is False.
    """
    # begin solution: look at signs and sums
    if not len(outputs):
        return False
    # A NaN makes both comparisons False.
    sums_to_one = (outputs.sum(dim=1) - 1).abs() <= 1e-4
    return bool((outputs >= 0).all() and sums_to_one.all())
    # end solution


def double_softmax_floor(num_classes: int) -> float:
    """Return the lowest loss that a row can have if its probabilities are taken for logits: a Python float.

    At best the probabilities are 1 for the target and 0 for the other num_classes - 1 classes. Taken for logits
    they cost

        log(1 + (num_classes - 1) / e)

    where a training with the double softmax gets stuck: at 1.46 for 10 classes.

    Raises ValueError that names `num_classes` if it is below 1.
    """
    # begin solution: the formula
    if num_classes < 1:
        raise ValueError(f"num_classes must be at least 1, got {num_classes}")
    return math.log1p((num_classes - 1) / math.e)
    # end solution
