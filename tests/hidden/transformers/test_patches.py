"""Tests of patchify, unpatchify and PatchEmbedding."""

from __future__ import annotations

import torch

from grader.judge.checks import Cases, Draw, any_gradients, laws, promise, raises, within
from grader.judge.student import Student

# Tolerances for sums in float32, in any order.
SUMS = {"rtol": 1e-4, "atol": 1e-4}


# --- patchify ------------------------------------------------------------------------------------


@promise("patchify", points=2, hint="Of a patch of one pixel only the channels are left.")
def test_order_of_patches(code: Student, draw: Draw) -> Cases:
    """Patches come row by row: patches of size 1 are the pixels in reading order."""
    patches = code.function("patchify")(draw.normal(2, 3, 4, 5), 1)
    yield "the patches of size 1", any_gradients(patches)


@promise("patchify", points=2, hint="The only patch of an image is images.flatten(1).")
def test_order_in_a_patch(code: Student, draw: Draw) -> Cases:
    """The numbers in a patch come channel by channel, row by row, as in a patch that is the whole image."""
    patches = code.function("patchify")(draw.normal(2, 3, 4, 4), 4)
    yield "the only patch", any_gradients(patches)


@promise(
    "patchify",
    points=6,
    hint="reshape(batch, channels, height // size, size, width // size, size), permute, reshape.",
)
def test_patchify(code: Student, draw: Draw) -> Cases:
    """The patches of images of any height and width are right."""
    for shape, size in [((2, 3, 4, 6), 2), ((1, 2, 9, 6), 3), ((2, 1, 2, 8), 2)]:
        patches = code.function("patchify")(draw.normal(*shape), size)
        yield f"the patches of size {size} of images of shape {shape}", any_gradients(patches)


@promise(
    "patchify",
    hint="if height % size or width % size: raise a ValueError that speaks of images.",
    word="the sandbox says that it raised",
)
def test_errors(code: Student, draw: Draw) -> Cases:
    """A size that does not divide height and width is a ValueError that names images."""
    for shape in [(1, 1, 4, 5), (1, 1, 5, 4)]:
        refusal = raises(ValueError, "images", code.function("patchify"), draw.normal(*shape), 2)
        yield f"patchify for images of shape {shape} and size = 2", refusal


@promise(
    "patchify",
    hint="reshape takes any strides; as_strided needs the strides of the images.",
    word="code that does nothing changes nothing",
)
def test_layouts(student: Student) -> None:
    """Images may lie in memory in any way, and are left as they are."""
    laws.check_layouts(student, "patchify", torch.randn(2, 3, 4, 6), 2)
    laws.check_changes_nothing(student, "patchify", torch.randn(2, 3, 4, 6), 2)


# --- unpatchify ----------------------------------------------------------------------------------


@promise("unpatchify", points=2, hint="Of a patch of one pixel only the channels are left.")
def test_patches_of_a_pixel(code: Student, draw: Draw) -> Cases:
    """Patches of size 1 are put back row by row."""
    images = code.function("unpatchify")(draw.normal(2, 20, 3), 1, 4, 5)
    yield "the images", any_gradients(images)


@promise("unpatchify", points=2, hint="patches[:, 0].reshape(batch, -1, size, size)")
def test_one_patch(code: Student, draw: Draw) -> Cases:
    """A patch as large as the image is the image, channel by channel."""
    images = code.function("unpatchify")(draw.normal(2, 1, 48), 4, 4, 4)
    yield "the images", any_gradients(images)


@promise(
    "unpatchify",
    points=6,
    hint="reshape(batch, rows, columns, -1, size, size), permute(0, 3, 1, 4, 2, 5), reshape.",
)
def test_unpatchify(code: Student, draw: Draw) -> Cases:
    """The images are right for any height and width."""
    for channels, size, height, width in [(3, 2, 4, 6), (2, 3, 9, 6), (1, 2, 2, 8)]:
        patches = draw.normal(2, height * width // size**2, channels * size**2)
        images = code.function("unpatchify")(patches, size, height, width)
        what = f"the images of {height} * {width} pixels from patches of size {size}"
        yield what, any_gradients(images)


# --- the layer -----------------------------------------------------------------------------------


@promise("PatchEmbedding.__init__", hint="nn.Linear(channels * size * size, dim)")
def test_parameters(student: Student) -> None:
    """The layer has a linear layer, projection, and nothing else."""
    shapes = {"projection.weight": (5, 12), "projection.bias": (5,)}
    layer = student.module("PatchEmbedding", 3, 2, 5)
    laws.check_parameters(layer, shapes, call="PatchEmbedding(3, 2, 5)")
    laws.check_state_dict(layer, shapes)


@promise("PatchEmbedding.forward", points=5, hint="self.projection(patchify(images, self.size))")
def test_embedding(code: Student, draw: Draw) -> Cases:
    """Each patch is projected, and gradients reach the images and the layer."""
    layer = draw.fill(code.module("PatchEmbedding", 3, 2, 5))
    yield "the output", within(layer(draw.normal(2, 3, 4, 6, grad="images")), **SUMS)


@promise(
    "PatchEmbedding.as_convolution",
    points=5,
    hint="weight.reshape(dim, channels, size, size), and stride=size.",
)
def test_convolution(code: Student, draw: Draw) -> Cases:
    """The convolution gives the same numbers, in the rows and columns of the patches."""
    for channels, size in [(1, 1), (3, 2), (2, 3)]:
        weight, bias = draw.normal(5, channels * size**2), draw.normal(5)
        images = draw.normal(2, channels, 2 * size, 3 * size)
        convolved = code.run("convolved", weight, bias, images, size)
        yield f"its output for {channels} channels and size = {size}", within(convolved, **SUMS)
