"""Bounded, harmless text: values and names in messages to students."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from grader.judge.checks.comparison import Position, is_array, is_tensor
from grader.judge.outcomes import CheckFailed
from grader.judge.text import capitalized, text
from grader.results import Cause
from grader.sandbox.wire.values import Opaque, Record
from grader.text import LONGEST_TEXT, clean

# Words that begin a sentence of the grader or a suite's `what`; every other word may be a name.
_OPENERS = re.compile(r"(a|all|an|as|both|each|entry|every|its?|line|no|one|the|these|this|your)\b")


def quoted(said: str, limit: int = LONGEST_TEXT) -> str:
    return f'"{clean(said, limit)}"'


def failed(words: str, /, *values: object, told: str = "", more: Iterable[str] = ()) -> CheckFailed:
    """Return the failure of a law with this sentence, after a suite's own and before `more`."""
    lines = told, text(words, *values) if values else words, *more
    return CheckFailed([line for line in lines if line], Cause.MISTAKE if told else Cause.LAW)


def no_parameter(name: str, module: Any = None) -> CheckFailed:
    """Return the failure of a module without a parameter of this name.

    Every check says it in the same sentence, so that students read it once.
    """
    if "." in name:
        return failed("The module has no parameter named {name}.", name)
    has = [] if module is None else sorted(dict(module.named_parameters()))
    if module is not None and name in module.state_dict() and name not in has:
        return failed("{name} is a buffer, which no optimizer sees: make it an nn.Parameter.", name)
    # The stub promises the name, so a hidden test may show it.
    words = (
        f"There is no parameter named {name}: make self.{name} an nn.Parameter (a plain tensor is not "
        "one of the module's parameters)."
    )
    more = [text("The module has: {names}.", ", ".join(has))] if has else []
    return CheckFailed([text(words), *more], Cause.MISTAKE)


def sentence(words: str, /, *values: object) -> str:
    """Return a text with a capital letter, unless it begins with a name of the code, as in gelu(x)."""
    made = text(words, *values) if values else words
    return capitalized(made) if _OPENERS.match(made) else made


def subject(what: str, path: tuple[Any, ...]) -> str:
    """Return the subject of a sentence: the output; entry 2 (counted from 0) of the output."""
    is_said = False  # said once, however deep the lists are
    for key in path:
        if isinstance(key, Position):
            words = (
                "entry {place} of {what}" if is_said else "entry {place} (counted from 0) of {what}"
            )
            what, is_said = text(words, key, what), True
        else:
            what = text("the entry {name} of {what}", element(key), what)
    return what


def verb(what: str, singular: str, plural: str) -> str:
    """Return the verb that agrees with the first noun: the gradients of x *have*, the loss *has*."""
    noun = re.split(
        r" (?:\w+ed )?(?:of|at|for|in|on|with|after|from|to|by|under|when|that)\b", what
    )[0]
    return plural if re.search(r"[^siu']s$", noun) and not noun.endswith("bias") else singular


def element(value: Any) -> str:
    """Return one number, string or other leaf as a student reads it."""
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, int):
        if value.bit_length() > 200:  # Python refuses to print more than 4300 digits
            return f"an integer of about {value.bit_length() * 0.30103:.0f} digits"
        return str(value)
    if isinstance(value, (float, complex)):
        return f"{value + 0.0:.7g}"  # without a minus before a zero
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bytes):
        return quoted(value[:LONGEST_TEXT].decode("ascii", "backslashreplace"))
    return a_kind(value)


def numbers_apart(left: complex, right: complex) -> tuple[str, str]:
    """Return two numbers with enough digits to distinguish them."""
    shown = element(left), element(right)
    if shown[0] == shown[1] and isinstance(left, (float, complex)):
        return f"{left:.17g}", f"{right:.17g}"
    return shown


def shape_of(array: Any) -> str:
    return str(tuple(array.shape)) if len(array.shape) <= 8 else f"of {len(array.shape)} dimensions"


def a_kind(value: Any) -> str:
    """Return the type of a value with its article: a Tensor, an int, a NamedTuple PaddedBatch."""
    if value is None:
        return "None"
    if isinstance(value, Opaque):
        return f"an object of type {clean(value.type_name, 60)}"
    if isinstance(value, Record):
        return f"a NamedTuple {clean(value.type_name, 60)}"
    if is_tensor(value):
        return "a Tensor"
    if is_array(value):
        return "a numpy.ndarray"
    if isinstance(value, Mapping):
        return "a dict"
    for kind, words in (
        (bool, "a bool"),
        (int, "an int"),
        (float, "a float"),
        (str, "a string"),
        (bytes, "bytes"),
        (list, "a list"),
        (tuple, "a tuple"),
    ):
        if isinstance(value, kind):
            return words
    return f"an object of type {clean(type(value).__name__, 60)}"
