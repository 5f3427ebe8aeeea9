"""Small examples for grouped-query attention, which students may read."""

from __future__ import annotations

import torch

from grader.judge.checks import assert_close, entry, promise
from grader.judge.student import Student


@promise("window_mask", hint="Query 0 is at position 2, so that it looks at positions 1 and 2.")
def test_example_mask(student: Student) -> None:
    """The last two of four positions look at themselves and at the position before."""
    right = torch.tensor([[False, True, True, False], [False, False, True, True]])
    assert_close(student.function("window_mask")(2, 4, 2), right, what="window_mask(2, 4, 2)")


@promise("GroupedQueryAttention.forward", hint="repeat_interleave, not repeat: 0, 0, 1, 1.")
def test_example_heads(student: Student) -> None:
    """The first two of four heads get 10, the value of the first kv head; the others get the second's, 20."""
    right = torch.tensor([10.0, 10.0, 20.0, 20.0])
    assert_close(student.run("shared_heads"), right, what="the output", rtol=1e-4)


@promise(
    "GroupedQueryAttention.forward",
    hint="The last position of the cache is the one before the new one.",
)
def test_example_cache(student: Student) -> None:
    """If all keys fit equally and the window is 2, an output is the mean of two values, also with a cache."""
    pieces = [torch.tensor([1.0, 2.0, 6.0]), torch.tensor([8.0])]
    answers = student.run("rolling", pieces)
    rights = [([1.0, 1.5, 4.0], [2.0, 6.0]), ([7.0], [6.0, 8.0])]
    for i, (output, values) in enumerate(rights):
        answer = entry(entry(answers, kind=list, count=2)[i], kind=list, count=2)
        what = f"for {pieces[i].tolist()}"
        assert_close(answer[0], torch.tensor(output), what=f"the output {what}", rtol=1e-4)
        assert_close(answer[1], torch.tensor(values), what=f"the values cached {what}", rtol=1e-4)
