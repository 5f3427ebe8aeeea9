# right: as in tiktoken: the pair of the lowest rank first, one at a time; bytes by recursion; an array of counts
def merge(tokens, pair, new):
    out = []
    for token in tokens:
        if out and (out[-1], token) == tuple(pair) and out[-1] != new:
            out[-1] = new
        else:
            out.append(token)
    return out


def train_bpe(data, count):
    tokens, merges = [*data], []
    for i in range(count):
        table = {}
        for left, right in zip(tokens, tokens[1:]):
            table[left, right] = table.get((left, right), 0) + 1
        if not table:
            break
        most = max(table.values())
        best = sorted(pair for pair, n in table.items() if n == most)[0]
        merges.append(best)
        tokens = merge(tokens, best, 256 + i)
    return merges


def encode(data, merges):
    ranks = {tuple(pair): i for i, pair in enumerate(merges)}
    tokens = [*data]
    while True:
        places = [
            (ranks[pair], i)
            for i, pair in enumerate(zip(tokens, tokens[1:]))
            if pair in ranks
        ]
        if not places:
            return tokens
        rank, i = min(places)
        tokens[i : i + 2] = [256 + rank]


def decode(tokens, merges):
    out = bytearray()

    def spell(token):
        if token < 256:
            out.append(token)
        else:
            for part in merges[token - 256]:
                spell(part)

    for token in tokens:
        spell(token)
    return bytes(out)
