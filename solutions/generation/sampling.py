"""Write how a language model chooses its next token: temperature, top-k, top-p and a repetition penalty.

A model gives a number (a logit) to each token of its vocabulary, and softmax makes them probabilities. Likely
tokens alone give dull text, and the long tail of unlikely ones spoils it. So logits are changed before a
token is drawn:

- *temperature* divides them: below 1 the likely tokens get likelier, above 1 all become more alike
- *top-k* keeps the k highest
- *top-p* keeps the fewest likely tokens whose probabilities add up to p
- a *repetition penalty* lowers tokens that are already there

`logits` are (..., vocab), finite or -inf, and at least one of a row is finite. A token that is not kept gets
-inf, whose probability is 0; the others stay as they are.

Source: Holtzman et al. (2020), "The Curious Case of Neural Text Degeneration", section 3; Keskar et al. (2019),
"CTRL: A Conditional Transformer Language Model for Controllable Generation", section 4.1.

What holds for every exercise: docs/every-exercise.md.
"""

import math

import torch
from torch import Tensor


def penalize_repetition(logits: Tensor, tokens: Tensor, penalty: float) -> Tensor:
    """Lower the logits of the tokens that a row has already: (rows, vocab).

    `tokens` is (rows, length), int64. A logit above 0 is divided by `penalty`, which is at least 1, any other
    is multiplied by it: dividing would make it likelier. It happens once, however often the token is there.
    Each row has tokens of its own.
    """
    # begin solution: change the logits at tokens
    # If a token comes twice, the same result is written twice.
    seen = logits.gather(-1, tokens)
    lowered = torch.where(seen > 0, seen / penalty, seen * penalty)
    return logits.scatter(-1, tokens, lowered)
    # end solution


def keep_top_k(logits: Tensor, k: int) -> Tensor:
    """Keep the k highest logits of each row, and set the others to -inf: (..., vocab).

    Logits that are equal to the k-th highest stay, too, so that more than k may be left. `k` is at least 1.
    If it is above the size of the vocabulary, everything stays.
    """
    # begin solution: compare with the k-th highest
    kept = logits.topk(min(k, logits.shape[-1])).values
    return logits.masked_fill(logits < kept[..., -1:], -math.inf)
    # end solution


def keep_top_p(logits: Tensor, p: float) -> Tensor:
    """Keep the most likely tokens of each row until they add up to p: (..., vocab).

    That is the smallest set of most likely tokens with a probability of at least `p`, where 0 < p < 1. The
    token that crosses p stays, and so does always the most likely one. Which of several equal tokens stay is
    up to you.
    """
    # begin solution: sort, add up, compare, and put back in place
    ordered, order = logits.sort(descending=True)
    probabilities = torch.softmax(ordered, dim=-1)
    # The sum over the tokens before this one. If it has reached p, this token is not needed.
    before = probabilities.cumsum(dim=-1) - probabilities
    ordered = ordered.masked_fill(before >= p, -math.inf)
    return torch.empty_like(logits).scatter(-1, order, ordered)
    # end solution


def sample(
    logits: Tensor,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Draw a token for each row, by its probability: (rows, vocab) becomes (rows,), int64.

    - The order matters: first the temperature, then top-k, then top-p, which counts the probabilities of the
      tokens that top-k kept. A step whose argument is None is left out.
    - A temperature of 0 is greedy: the token with the highest logit.
    - Rows are drawn independently of each other.
    - All random numbers come from `generator`, and the global random state stays as it is. The same state of
      a generator gives the same tokens. If it is None, the global state is used.
    """
    # begin solution: temperature, filters, softmax, draw
    if temperature == 0:
        return logits.argmax(dim=-1)
    logits = logits / temperature
    if top_k is not None:
        logits = keep_top_k(logits, top_k)
    if top_p is not None:
        logits = keep_top_p(logits, top_p)
    probabilities = torch.softmax(logits, dim=-1)
    return torch.multinomial(probabilities, 1, generator=generator).squeeze(-1)
    # end solution
