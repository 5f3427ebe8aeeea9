# right: always width rows, of which those that are finished or not yet there have -inf; the best one is kept on the way
import torch
import torch.nn.functional as F


def best_continuations(log_probs, logits, width):
    vocab = logits.size(-1)
    totals = (F.log_softmax(logits, -1) + log_probs[:, None]).view(-1)
    values, order = torch.sort(totals, descending=True)
    values, order = values[:width], order[:width]
    beams = torch.div(order, vocab, rounding_mode="floor")
    return values, beams, order - beams * vocab


@torch.no_grad()
def beam_search(step, start, width, max_length, eos, length_penalty=1.0):
    rows = start.repeat(width, 1)
    totals = torch.full((width,), float("-inf"), dtype=torch.float64)
    totals[0] = 0
    best, best_score = None, float("-inf")
    for new in range(1, max_length + 1):
        totals, beams, tokens = best_continuations(totals, step(rows), width)
        rows = torch.cat((rows.index_select(0, beams), tokens.view(-1, 1)), 1)
        for i in range(len(rows)):
            if tokens[i] == eos or new == max_length:
                score = totals[i].item() / new**length_penalty
                if score > best_score:
                    best, best_score = rows[i].clone(), score
        totals = totals.masked_fill(tokens == eos, float("-inf"))
        if totals.isneginf().all():
            break
    return best, best_score
