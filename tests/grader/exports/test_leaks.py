"""A submission cannot leak hidden constants through exceptions, output, names or warnings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from grader.exports.disclosure import disclosed_result
from grader.results import Disclosure, to_json

from ..builders import result

if TYPE_CHECKING:
    from collections.abc import Callable

    from grader.judge.assignment import Judgment

# Only the hidden probe has it, no file of the student's.
SECRET = "CANARY_7f3a"
# Another secret of the same length, different in every character.
OTHER = "xqzpwvbkgmd"


def probe_of(secret: str) -> str:
    return f"""
SECRET = "{secret}"
def ask(module):
    return module.answer(SECRET)
"""


PROBE = probe_of(SECRET)
SUITE = """
@pytest.mark.hint("Return 1.")
def test_answer(student):
    '''The answer is 1.'''
    assert_equal(student.run("ask"), 1, what="the answer")
"""
# The same for a tensor, whose message names shapes and dtypes.
TENSOR_SUITE = """
import torch

@pytest.mark.hint("Return ones.")
def test_answer(student):
    '''The answer is a tensor.'''
    assert_close(student.run("ask"), torch.ones(2, 3), what="the answer")
"""
WAYS = {
    "exception": "raise ValueError(secret)",
    "exception's type": "raise type(secret, (KeyError,), {})('x')",
    "to do": "raise NotImplementedError(secret)",
    "exit": "import sys; sys.exit(secret)",
    "print": "print(secret); return 2",
    "error stream": "import sys; print(secret, file=sys.stderr); return 2",
    "warning": "import warnings; warnings.warn(secret); return 2",
    "warning's type": "import warnings; warnings.warn('x', type(secret, (UserWarning,), {})); return 2",
    "type of the result": "return type(secret, (), {})()",
    "attribute": "return getattr([], secret)",
    "module": "__import__(secret)",
    "result": "return secret",
    "item": "return [1, secret]",
    "key": "return {secret: 1}",
    "field": "import collections; return collections.namedtuple('Row', [secret])(1)",
    "note": "error = ValueError('x'); error.add_note(secret); raise error",
    "cause": "raise ValueError('x') from KeyError(secret)",
    "group": "raise ExceptionGroup(secret, [ValueError(secret)])",
    "number": "return int(secret)",
    "lines": "raise ValueError('\\n'.join(['The answer', *secret]))",
    "assertion": "assert False, secret",
    "words of the suite": "return f'The answer {secret}: the answer is 1.'",
    "allocation": "raise MemoryError(f'allocate memory {secret}')",
    "keeping of names": "raise AttributeError(f'{secret} defines no x; keep the names of the stub')",
    "abort": "import sys, os; sys.stderr.write(secret); sys.stderr.flush(); os._exit(3)",
}
# Ways that carry numbers or a choice but no text. A student must read the same for two secrets.
QUIET_WAYS = {
    "shape": "import torch; return torch.zeros([1 + ord(c) % 2 for c in secret])",
    "size": "import torch; return torch.zeros(ord(secret[0]))",
    "value": "return float(ord(secret[0]))",
    "length": "return [0] * ord(secret[0])",
    "depth": "return eval('[' * (ord(secret[0]) % 7 + 1) + ']' * (ord(secret[0]) % 7 + 1))",
    "element": "import torch; return torch.tensor([ord(c) for c in secret])",
    "sign": "return -1 if ord(secret[0]) % 2 else 2",
    "infinity": "return float('inf') if ord(secret[0]) % 2 else float('nan')",
    "file name": "exec(compile('raise ValueError', secret + '.py', 'exec'))",
    "line elsewhere": "exec(compile('\\n' * ord(secret[0]) + 'raise ValueError', 'other.py', 'exec'))",
    "representation": "return type('Odd', (), {'__repr__': lambda self: secret})()",
    "text of an error": "raise type('Odd', (ValueError,), {'__str__': lambda self: secret})",
    "qualified name": "kind = type('A', (ValueError,), {}); kind.__qualname__ = secret; raise kind",
    "module's name": "raise type('A', (ValueError,), {'__module__': secret})",
    "context": "try:\n        raise KeyError(secret)\n    except KeyError:\n        raise ValueError",
    "notes": "e = ValueError('x'); [e.add_note('x') for _ in range(ord(secret[0]))]; raise e",
    "groups": "raise ExceptionGroup('x', [ValueError()] * ord(secret[0]))",
    "prints": "[print('x') for _ in range(ord(secret[0]))]; return 2",
    "warnings": "import warnings; [warnings.warn(f'{n}') for n in range(ord(secret[0]))]; return 2",
    "duration": "import time; time.sleep((ord(secret[0]) % 2) * 0.3); return 2",
    "memory": "a = bytearray(2**20 * (1 + ord(secret[0]) % 2 * 40)); return 2",
    "exit code": "import os; os._exit(ord(secret[0]))",
    "recursion": "f = lambda n: n and f(n - 1); f(ord(secret[0])); return 2",
    "argument of a key": "return {}[secret]",
    "index": "return [][ord(secret[0])]",
    "broadcast": "import torch; return torch.zeros(ord(secret[0])) + torch.zeros(3)",
}
TENSOR_WAYS = {
    "rows": "return torch.ones(n, 3)",
    "columns": "return torch.ones(2, n)",
    "dimensions": "return torch.ones([1] * (n % 9 + 3))",
    "values": "return torch.full((2, 3), float(n))",
    "place": "x = torch.ones(2, 3); x.view(-1)[n % 6] = 5; return x",
    "number of places": "x = torch.ones(2, 3); x.view(-1)[: n % 4 + 2] = 5; return x",
    "difference": "return torch.ones(2, 3) + 2.0 ** -(n % 12)",
    "items": "return [torch.ones(2, 3)] * n",
}
# Not even staff see the secret in these.
UNSEEN = ("result", "item", "key", "field", "note", "cause", "lines", "words of the suite")


@pytest.mark.thorough
@pytest.mark.parametrize("way", WAYS)
def test_nothing_of_a_hidden_probe_reaches_a_student(
    judged: Callable[..., Judgment], way: str
) -> None:
    source = f"def answer(secret):\n    {WAYS[way]}\n"
    exercise = judged(source, SUITE, PROBE).result
    assert SECRET.encode() in to_json(result(exercise)) or way in UNSEEN, (
        "This way does not bring the secret even to staff."
    )
    for level in (Disclosure.MISTAKE, Disclosure.TITLE, Disclosure.NOTHING):
        read = to_json(disclosed_result(result(exercise), level))
        assert SECRET.encode() not in read


def read_of(judged: Callable[..., Judgment], source: str, suite: str, secret: str) -> bytes:
    """Return what a student may read of a verdict if the probe holds this secret."""
    exercise = judged(source, suite, probe_of(secret)).result
    return to_json(disclosed_result(result(exercise), Disclosure.MISTAKE))


# `make test` runs every fourth of them.
EVERY_WAY = [
    pytest.param(way, marks=[pytest.mark.thorough] if number % 4 else [])
    for number, way in enumerate((*WAYS, *QUIET_WAYS))
]


@pytest.mark.thorough
@pytest.mark.parametrize("way", EVERY_WAY)
def test_a_student_reads_the_same_for_two_secrets(
    judged: Callable[..., Judgment], way: str
) -> None:
    source = f"def answer(secret):\n    {(WAYS | QUIET_WAYS)[way]}\n"
    # With this import the judge loads torch beforehand, so it costs the test no time.
    suite = f"import torch\n{SUITE}"
    assert read_of(judged, source, suite, SECRET) == read_of(judged, source, suite, OTHER)


@pytest.mark.parametrize("way", TENSOR_WAYS)
def test_a_student_reads_no_number_of_a_tensor(judged: Callable[..., Judgment], way: str) -> None:
    source = (
        f"import torch\n\ndef answer(secret):\n    n = ord(secret[0])\n    {TENSOR_WAYS[way]}\n"
    )
    assert read_of(judged, source, TENSOR_SUITE, SECRET) == read_of(
        judged, source, TENSOR_SUITE, OTHER
    )


def test_a_function_made_up_by_the_code_is_not_named(judged: Callable[..., Judgment]) -> None:
    made_up = (
        "space = {}; exec(compile(f'def {secret}(): raise ValueError', 'one/task.py', 'exec'), space); "
        "space[secret]()"
    )
    exercise = judged(f"def answer(secret):\n    {made_up}\n", SUITE, PROBE).result
    assert exercise.tests[0].place is not None
    # The name is that of the function on that line of the file. Not even staff read another.
    assert exercise.tests[0].place.function in ("answer", "<module>")
    assert SECRET.encode() not in to_json(result(exercise))


def test_an_attempt_reveals_only_the_type_and_the_line(
    judged: Callable[..., Judgment],
) -> None:
    # Students may know the line that raised. It is the only channel left.
    lines = "\n".join(f"    if len(secret) == {n}: raise ValueError(secret)" for n in range(1, 20))
    exercise = judged(f"def answer(secret):\n{lines}\n", SUITE, PROBE).result
    (test,) = disclosed_result(result(exercise), Disclosure.MISTAKE).exercises[0].tests
    assert test.message == "Your code raised a ValueError."
    assert test.place is not None
    assert (test.place.line, test.place.function) == (len(SECRET) + 1, "")
