# right: torch.unique counts pairs, each as one number; decode puts pairs back from the last merge to the first
import torch


def merge(tokens, pair, new):
    tokens = list(tokens)
    place = 0
    while place < len(tokens) - 1:
        if tokens[place] == pair[0] and tokens[place + 1] == pair[1]:
            tokens[place : place + 2] = [new]
        place += 1
    return tokens


def train_bpe(data, count):
    tokens, merges = list(data), []
    for new in range(256, 256 + count):
        if len(tokens) < 2:
            break
        row = torch.tensor(tokens)
        pairs, counts = torch.unique(row[:-1] * 2**20 + row[1:], return_counts=True)
        best = pairs[counts == counts.max()].min().item()
        merges.append([best // 2**20, best % 2**20])
        tokens = merge(tokens, merges[-1], new)
    return merges


def encode(data, merges):
    tokens = [byte for byte in data]
    for new, pair in enumerate(merges, start=256):
        tokens = merge(tokens, pair, new)
    return tokens


def decode(tokens, merges):
    tokens = list(tokens)
    for new in reversed(range(256, 256 + len(merges))):
        tokens = [part for t in tokens for part in (merges[new - 256] if t == new else [t])]
    return bytes(tokens)
