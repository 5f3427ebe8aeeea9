# right: Python lists of beams and heapq; step is called for one row at a time, probabilities by math
import heapq
import math


def log_softmax(row):
    most = max(row)
    total = math.log(sum(math.exp(x - most) for x in row)) + most
    return [x - total for x in row]


def best_continuations(log_probs, logits, width):
    candidates = []
    for beam, (so_far, row) in enumerate(zip(log_probs.tolist(), logits.tolist())):
        candidates += [(so_far + x, beam, token) for token, x in enumerate(log_softmax(row))]
    best = heapq.nlargest(width, candidates)
    values, beams, tokens = zip(*best)
    return (
        logits.new_tensor(values),
        logits.new_tensor(beams).long(),
        logits.new_tensor(tokens).long(),
    )


def beam_search(step, start, width, max_length, eos, length_penalty=1.0):
    live, finished = [(0.0, start.tolist())], []
    while live:
        candidates = []
        for so_far, tokens in live:
            logits = step(start.new_tensor([tokens]))[0].tolist()
            for token, x in enumerate(log_softmax(logits)):
                candidates.append((so_far + x, [*tokens, token]))
        candidates.sort(reverse=True)
        live = []
        for total, tokens in candidates[:width]:
            new = len(tokens) - len(start)
            if tokens[-1] == eos or new == max_length:
                finished.append((total / math.pow(new, length_penalty), tokens))
            else:
                live.append((total, tokens))
    score, tokens = max(finished)
    return tokens, score
