"""Hidden constants that a submission tries to carry out by what it raises, prints, names and warns of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from grader.exports.disclosure import disclosed_result
from grader.results import Disclosure, to_json

from ..builders import result

if TYPE_CHECKING:
    from collections.abc import Callable

    from grader.judge.assignment import Judgment

# What the hidden probe holds, and no file of the student's.
SECRET = "CANARY_7f3a"
PROBE = f"""
SECRET = "{SECRET}"
def ask(module):
    return module.answer(SECRET)
"""
SUITE = """
@pytest.mark.hint("Return 1.")
def test_answer(student):
    '''The answer is 1.'''
    assert_equal(student.run("ask"), 1, what="the answer")
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
# Not even staff see these.
UNSEEN = ("result", "item", "key", "field", "note", "cause", "lines", "words of the suite")


@pytest.mark.parametrize("way", WAYS)
def test_nothing_of_a_hidden_probe_reaches_a_student(
    judged: Callable[..., Judgment], way: str
) -> None:
    source = f"def answer(secret):\n    {WAYS[way]}\n"
    exercise = judged(source, SUITE, PROBE).result
    assert SECRET.encode() in to_json(result(exercise)) or way in UNSEEN, (
        "This way carries nothing out, not even to staff."
    )
    for level in (Disclosure.MISTAKE, Disclosure.TITLE, Disclosure.NOTHING):
        read = to_json(disclosed_result(result(exercise), level))
        assert SECRET.encode() not in read


def test_a_function_that_the_code_made_up_has_no_name(judged: Callable[..., Judgment]) -> None:
    made_up = (
        "space = {}; exec(compile(f'def {secret}(): raise ValueError', 'one/task.py', 'exec'), space); "
        "space[secret]()"
    )
    exercise = judged(f"def answer(secret):\n    {made_up}\n", SUITE, PROBE).result
    assert exercise.tests[0].place is not None
    # The function that stands on that line of the file, or none: staff read no other name either.
    assert exercise.tests[0].place.function in ("answer", "<module>")
    assert SECRET.encode() not in to_json(result(exercise))


def test_of_many_attempts_each_brings_the_type_and_the_line(
    judged: Callable[..., Judgment],
) -> None:
    # Which line raised is the student's to know, and all that is left to say something with.
    lines = "\n".join(f"    if len(secret) == {n}: raise ValueError(secret)" for n in range(1, 20))
    exercise = judged(f"def answer(secret):\n{lines}\n", SUITE, PROBE).result
    (test,) = disclosed_result(result(exercise), Disclosure.MISTAKE).exercises[0].tests
    assert test.message == "Your code raised a ValueError."
    assert test.place is not None
    assert (test.place.line, test.place.function) == (len(SECRET) + 1, "")
