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


def merge(tokens: list[int], pair: tuple[int, int], new: int) -> list[int]:
    """Return the tokens with `new` in the place of each occurrence of `pair`, from left to right.

    Occurrences do not overlap: of three times the same token, the first two are a pair.
    """
    # TODO: go through the tokens, by one or by two.
    raise NotImplementedError("merge: go through the tokens, by one or by two")


def train_bpe(data: bytes, count: int) -> list[tuple[int, int]]:
    """Return `count` merges, in the order in which they are made.

    - Each time, the pair that occurs most often in the tokens is merged everywhere. All neighbors count, also
      those that overlap: three times the same token are two pairs.
    - Of pairs that are equally frequent, the smallest one is merged: (3, 9) is below (4, 1) and below (3, 10).
    - Also a pair that occurs once is merged. If no pair is left, there are fewer merges.
    """
    # TODO: count, choose, merge, again.
    raise NotImplementedError("train_bpe: count, choose, merge, again")


def encode(data: bytes, merges: list[tuple[int, int]]) -> list[int]:
    """Return the tokens of any data: the merges are made in their order, each wherever its pair is then."""
    # TODO: one merge after the other.
    raise NotImplementedError("encode: one merge after the other")


def decode(tokens: list[int], merges: list[tuple[int, int]]) -> bytes:
    """Return the bytes that these tokens are made of: `decode(encode(data, merges), merges)` is `data`.

    They need not be valid UTF-8: a token may end in the middle of a character.
    """
    # TODO: the bytes of each token, joined.
    raise NotImplementedError("decode: the bytes of each token, joined")
