"""Write the cross-entropy loss from logits, and recognize what happens when a softmax comes in twice.

A classifier's last layer gives a row of C numbers, the *logits*, which may be any numbers. The softmax makes
probabilities of them, and the cross-entropy is the surprise at the right class, the *target*:

    p_c = exp(logit_c) / (exp(logit_1) + ... + exp(logit_C))        loss of a row = -log p_target

Done in these two steps it breaks: exp(1000) is inf, and the log of a probability that was rounded to 0 is
-inf. Done in one step it is exact for all logits:

    log p_c = logit_c - logsumexp(logits of the row)

That is why losses in PyTorch take logits, and why many networks have one softmax too many: a network that ends
in a softmax gives probabilities to a loss that takes them for logits. It runs, it even learns, and it gets
stuck at a loss far above zero.

Sources: PyTorch documentation, torch.nn.CrossEntropyLoss; Szegedy et al. (2016), "Rethinking the Inception
Architecture for Computer Vision", section 7 (label smoothing).
"""

from torch import Tensor


def cross_entropy(
    logits: Tensor,
    targets: Tensor,
    weight: Tensor | None = None,
    label_smoothing: float = 0.0,
    ignore_index: int = -100,
) -> Tensor:
    """Return the mean cross-entropy of the rows of `logits`: a 0-d tensor of their dtype.

    `logits` is (N, C), of finite numbers, float32 or float64, with any strides; `targets` is (N,), int64;
    `weight`, if given, is (C,), of the dtype of `logits`, without negative entries. The result is that of
    `F.cross_entropy` with these arguments:

    - With p = softmax of a row over its C classes, the row costs

          -sum over c of weight_c * q_c * log p_c        (without `weight`, every weight_c is 1)

      where q_c is `label_smoothing / C` for every class, the target included, and the target has
      `1 - label_smoothing` on top of it.
    - A row whose target is `ignore_index` is left out: it adds nothing and its logits get no gradient.
      `ignore_index` may be any number, also that of a class. It only picks rows: in the other rows all C
      classes take part.
    - The sum of the other rows' costs is divided by the sum of the weights of their targets (without `weight`,
      by the number of these rows). If there are none, the result is NaN.

    Value and gradient are finite and exact for logits up to 1e4 in magnitude, also where one row of the batch
    is huge and another one small. (For float32 logits above 100, to within 1e-3: logsumexp itself rounds
    there.)

    The arguments stay as they are. PyTorch's operators cross_entropy, nll_loss and log_softmax are not allowed
    here, however you reach them (`F.cross_entropy`, `nn.CrossEntropyLoss`, `nn.LogSoftmax`, ...);
    `torch.logsumexp`, `softmax` and `gather` are.

    Raises ValueError that names `targets` if a target is neither `ignore_index` nor in 0..C-1 (a negative one
    does not count from the end), and ValueError that names `label_smoothing` if that is outside [0, 1].
    """
    # TODO: log p by logsumexp, then the weighted mean.
    raise NotImplementedError("cross_entropy: log p by logsumexp, then the weighted mean")


def looks_like_probabilities(outputs: Tensor) -> bool:
    """Tell whether the outputs of a model, (N, C), have been through a softmax: True or False.

    They have if no entry is below 0 and every row sums to 1, to within 1e-4. Then a loss that takes logits
    would take a second softmax of them. Logits and outputs of a sigmoid have not, nor has anything with a NaN.
    Log-probabilities have not either, and nothing is wrong with them: a second log-softmax leaves them as they
    are. Without rows (N = 0) the answer is False.

    `outputs`, float32 or float64, stays as it is.
    """
    # TODO: look at signs and sums.
    raise NotImplementedError("looks_like_probabilities: look at signs and sums")


def double_softmax_floor(num_classes: int) -> float:
    """Return the lowest loss that a row can have if its probabilities are taken for logits: a Python float.

    At best the probabilities are 1 for the target and 0 for the other num_classes - 1 classes. Taken for logits
    (no weight, no smoothing) they cost

        log(1 + (num_classes - 1) / e)

    which is where a training with the double softmax gets stuck: 1.46 for 10 classes, not 0.

    Raises ValueError that names `num_classes` if that is below 1.
    """
    # TODO: the formula.
    raise NotImplementedError("double_softmax_floor: the formula")
