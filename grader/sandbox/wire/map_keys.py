"""The keys of the maps in a MessagePack structure, looked at before a decoder hashes them."""

from __future__ import annotations

from grader.sandbox.wire.values import ProtocolError

__all__ = ["MAX_UNCHECKED_BYTES", "ODD_KEY", "refuse_compound_keys"]

# A structure as small as this is decoded as it is; in a larger one the keys are looked at first.
MAX_UNCHECKED_BYTES = 2**14

ODD_KEY = "a dict has a key that is neither a string nor a number"
_ARRAYS, _MAPS = (
    frozenset([*range(0x90, 0xA0), 0xDC, 0xDD]),
    frozenset([*range(0x80, 0x90), 0xDE, 0xDF]),
)
# Of MessagePack's first bytes: how many follow that say a length, and how many have a fixed one.
_LENGTHS = {
    **dict.fromkeys((0xC4, 0xC7, 0xD9), 1),
    **dict.fromkeys((0xC5, 0xC8, 0xDA, 0xDC, 0xDE), 2),
    **dict.fromkeys((0xC6, 0xC9, 0xDB, 0xDD, 0xDF), 4),
}
_FIXED = {
    **{0xA0 + size: size for size in range(32)},
    **{first + power: 2**power for first in (0xCC, 0xD0) for power in range(4)},
    **{0xD4 + power: 2**power + 1 for power in range(5)},
    0xCA: 4,
    0xCB: 8,
}


def refuse_compound_keys(data: bytes | bytearray | memoryview) -> None:
    """Raise ProtocolError if a map in large MessagePack has an array or a map for a key.

    Such a key is decoded to a tuple. Tuples of integers with one and the same hash can be computed,
    whatever PYTHONHASHSEED is, and a dict of them takes the square of their number: the 60,000 that
    fit into a frame took 20 s, in C, where nobody looks at a deadline. What makes no sense at all is
    left to the decoder.
    """
    end, position = len(data), 0
    if end <= MAX_UNCHECKED_BYTES:
        return
    # What is still to come of each container around, and whether it is a map: there, an even number
    # means that a key is next.
    left, maps = [1], [False]
    while left and position < end:
        if not left[-1]:
            left.pop()
            maps.pop()
            continue
        first = data[position]
        position += 1
        is_map = first in _MAPS
        is_container = is_map or first in _ARRAYS
        if is_container and maps[-1] and left[-1] % 2 == 0:
            raise ProtocolError(ODD_KEY)
        left[-1] -= 1
        size = _FIXED.get(first, 0)
        if width := _LENGTHS.get(first, 0):
            size = int.from_bytes(data[position : position + width], "big")
            position += width + (0xC7 <= first <= 0xC9)  # the type of an extension
        elif is_container:
            size = first & 0x0F
        if is_container:
            left.append(size * 2 if is_map else size)
            maps.append(is_map)
        else:
            position += size
