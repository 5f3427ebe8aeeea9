"""The names of strangers: written faithfully, shown harmlessly, and made safe for a file's name."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence

LONGEST_ID = 500
_PLAIN = re.compile(r"[a-z0-9](?:[a-z0-9._@+-]{0,98}[a-z0-9_@+-])?")
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")
_SLUG = re.compile(r"[^a-z0-9]+")


def written(text: str) -> str:
    """The text made fit for any file: composed (NFC), on one line, without invalid characters.

    It stays what the person is called: formulas, HTML and right-to-left marks are left as they are, and
    code that shows or writes the text treats it as a stranger's.
    """
    composed = unicodedata.normalize("NFC", text.strip())
    clean = "".join(
        "\ufffd" if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") else character
        for character in composed[: LONGEST_ID + 1]
    )
    if len(clean) <= LONGEST_ID:
        return clean
    # Two long names that begin alike are still two.
    digest = hashlib.sha256(composed.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{clean[: LONGEST_ID - 17]}~{digest[:16]}"


def shown(text: str, limit: int = 120) -> str:
    """The text made fit for a message: one line, bounded, with invisible characters escaped."""
    cleaned = "".join(
        character
        if unicodedata.category(character)[0] not in "CZ" or character == " "
        else character.encode("unicode_escape").decode("ascii")
        for character in text[: limit + 1]
    )
    return cleaned if len(cleaned) <= limit else cleaned[: limit - 1] + "…"


def listed_names(names: Sequence[str]) -> str:
    """The first five of some names, and how many more there are, for a message."""
    first = ", ".join(shown(name, 60) for name in names[:5])
    return first if len(names) <= 5 else f"{first} and {len(names) - 5} more"


def safe_name(student_id: str) -> str:
    """A file name, without a suffix, for a student id; another id never gets the same one.

    It can be written on any system, also where capitals and small letters are the same, and stands in
    a URL as it is. An id of small letters, digits and `. _ @ + -` stays itself:

    >>> safe_name("alice"), safe_name("Alice Doe")
    ('alice', 'alice-doe~b27a79f51bfff1ae0c4e1c19')
    """
    if _PLAIN.fullmatch(student_id) and not _RESERVED.fullmatch(student_id):
        return student_id
    ascii_text = unicodedata.normalize("NFKD", student_id).encode("ascii", "ignore").decode()
    slug = _SLUG.sub("-", ascii_text.lower())[:40].strip("-") or "student"
    # No plain id has a tilde. The digest, not the slug, tells two others apart.
    digest = hashlib.sha256(student_id.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{slug}~{digest[:24]}"
