"""Write byte pair encoding (BPE), the tokenizer of GPT and Llama, on bytes.

A language model reads tokens, and BPE makes them from data: it begins with the 256 bytes and merges the most
frequent pair of neighbors into a new token, again and again. Frequent words become one token. What was never
seen is still a sequence of bytes, so that no token is unknown.

Bytes are the tokens 0 to 255. *Merges* are a list of pairs of tokens, and number i of it (from 0) makes token
256 + i. Its pair consists of bytes and of tokens of earlier merges, and no pair is there twice.

Real tokenizers split a text into words first, so that no token crosses a space. Here all of the data is one
sequence.

Source: Sennrich et al. (2016), "Neural Machine Translation of Rare Words with Subword Units", section 3.2;
Radford et al. (2019), "Language Models are Unsupervised Multitask Learners", section 2.2, on bytes.

What holds for every exercise: docs/every-exercise.md.
"""

# begin solution: imports
from collections import Counter
from itertools import pairwise

# end solution


def merge(tokens: list[int], pair: tuple[int, int], new: int) -> list[int]:
    """Return the tokens with `new` in the place of each occurrence of `pair`, from left to right.

    Occurrences do not overlap: of three times the same token, the first two are a pair.
    """
    # begin solution: go through the tokens, by one or by two
    merged, i = [], 0
    while i < len(tokens):
        if tuple(tokens[i : i + 2]) == pair:
            merged.append(new)
            i += 2
        else:
            merged.append(tokens[i])
            i += 1
    return merged
    # end solution


def train_bpe(data: bytes, count: int) -> list[tuple[int, int]]:
    """Return `count` merges, in the order in which they are made.

    - Each time, the pair that occurs most often in the tokens is merged everywhere. All neighbors count, also
      those that overlap: three times the same token are two pairs.
    - Of pairs that are equally frequent, the smallest one is merged: (3, 9) is below (4, 1) and below (3, 10).
    - Also a pair that occurs once is merged. If no pair is left, there are fewer merges.
    """
    # begin solution: count, choose, merge, again
    tokens = list(data)
    merges: list[tuple[int, int]] = []
    while len(merges) < count and len(tokens) > 1:
        counts = Counter(pairwise(tokens))
        best = min(counts, key=lambda pair: (-counts[pair], pair))
        tokens = merge(tokens, best, 256 + len(merges))
        merges.append(best)
    return merges
    # end solution


def encode(data: bytes, merges: list[tuple[int, int]]) -> list[int]:
    """Return the tokens of any data: the merges are made in their order, each wherever its pair is then."""
    # begin solution: one merge after the other
    tokens = list(data)
    for i, pair in enumerate(merges):
        tokens = merge(tokens, pair, 256 + i)
    return tokens
    # end solution


def decode(tokens: list[int], merges: list[tuple[int, int]]) -> bytes:
    """Return the bytes that these tokens are made of: `decode(encode(data, merges), merges)` is `data`.

    They need not be valid UTF-8: a token may end in the middle of a character.
    """
    # begin solution: the bytes of each token, joined
    pieces = [bytes([i]) for i in range(256)]
    for left, right in merges:
        pieces.append(pieces[left] + pieces[right])
    return b"".join(pieces[token] for token in tokens)
    # end solution
