"""Small examples for patches of images, which students may read."""

from __future__ import annotations

import torch

from grader.judge.checks import assert_close, promise
from grader.judge.student import Student

IMAGE = torch.arange(16.0).view(1, 1, 4, 4)
PATCHES = torch.tensor(
    [[[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]], dtype=torch.float32
)


@promise("patchify", hint="The first patch has 0 and 1 of the first row, 4 and 5 of the second.")
def test_example_patches(student: Student) -> None:
    """The image at the top of the file has the patches beside it."""
    assert_close(student.function("patchify")(IMAGE, 2), PATCHES, what="the patches")


@promise("unpatchify", hint="The first row of the image is in the first two patches.")
def test_example_image(student: Student) -> None:
    """The patches at the top of the file give the image beside them."""
    assert_close(student.function("unpatchify")(PATCHES, 2, 4, 4), IMAGE, what="the image")


@promise("PatchEmbedding", hint="The sum over a patch is one number for each patch: (1, 4, 1).")
def test_example_embedding(student: Student) -> None:
    """With weights of 1 and no bias, the layer gives the sum of each patch."""
    layer = student.module("PatchEmbedding", 1, 2, 1)
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            parameter.fill_(0.0 if name.endswith("bias") else 1.0)
    right = torch.tensor([[[10.0], [18.0], [42.0], [50.0]]])
    assert_close(layer(IMAGE), right, what="the sums", rtol=1e-4)
