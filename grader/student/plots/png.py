"""Check an untrusted PNG by its chunks without decoding it, and rewrite it with only the necessary ones."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

MAX_BYTES = 4_000_000
MAX_SIDE = 6_000
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_HEAD = struct.Struct(">I4s")
_SIZE = struct.Struct(">II")
_CRC = struct.Struct(">I")
# All that a picture needs. Other chunks carry text, profiles and the like, which can unfold from little to
# much, or which some viewers read as more than a picture.
_KEPT = frozenset({b"IHDR", b"PLTE", b"tRNS", b"pHYs", b"IDAT", b"IEND"})


class NotAPicture(Exception):
    """The bytes are not a PNG that may be passed on; the text gives the reason."""


def plain_png(data: bytes) -> bytes:
    """Return the same picture with only the chunks that it needs.

    Raises NotAPicture if it is too large, in bytes or in pixels, or does not have the structure of a PNG. The
    viewer judges the pixels.
    """
    if len(data) > MAX_BYTES:
        raise NotAPicture(f"it has more than {MAX_BYTES // 1_000_000} MB")
    if not data.startswith(_SIGNATURE):
        raise NotAPicture("it does not begin like a PNG")
    chunks = list(_chunks(data))
    kinds = [kind for kind, _ in chunks]
    if kinds[:1] != [b"IHDR"] or kinds.count(b"IHDR") != 1 or kinds[-1] != b"IEND":
        raise NotAPicture("its parts are not in the order of a PNG")
    if b"IDAT" not in kinds:
        raise NotAPicture("it has no pixels")
    _check_size(chunks[0][1])
    return _SIGNATURE + b"".join(_chunk(*chunk) for chunk in chunks if chunk[0] in _KEPT)


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the chunks up to the end of the picture; anything after it is left out."""
    position = len(_SIGNATURE)
    while position + _HEAD.size + _CRC.size <= len(data):
        length, kind = _HEAD.unpack_from(data, position)
        position += _HEAD.size
        body = data[position : position + length]
        position += length + _CRC.size
        end = _CRC.unpack_from(data, position - _CRC.size) if position <= len(data) else None
        if end != (zlib.crc32(kind + body),):
            raise NotAPicture("one of its parts is damaged")
        yield kind, body
        if kind == b"IEND":
            return
    raise NotAPicture("its end is missing")


def _chunk(kind: bytes, body: bytes) -> bytes:
    return _HEAD.pack(len(body), kind) + body + _CRC.pack(zlib.crc32(kind + body))


def _check_size(header: bytes) -> None:
    if len(header) != 13:
        raise NotAPicture("its header is damaged")
    width, height = _SIZE.unpack_from(header)
    if not (0 < width <= MAX_SIDE and 0 < height <= MAX_SIDE):
        raise NotAPicture(
            f"it is {width} by {height} pixels; each side has to be from 1 to {MAX_SIDE}"
        )
