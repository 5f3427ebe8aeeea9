"""Storage, strides and views: how a tensor finds its elements in memory.

A tensor is a view of its storage, a row of elements in memory. One step along dimension d moves on by
`x.stride(d)` elements, so x[i, j] is at the position

    x.storage_offset() + i * x.stride(0) + j * x.stride(1)

A transposed or sliced tensor has another offset and other strides over the same storage.

Source: E. Z. Yang, "PyTorch internals" (2019); PyTorch documentation, "Tensor Views".

What holds for every exercise: docs/every-exercise.md.
"""

from collections.abc import Sequence

from torch import Tensor


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides, in elements, of a row-major tensor of this shape.

    The last stride is 1; every other one is the product of the sizes behind it, where a size of 0 counts as 1:
    (2, 3, 4) gives (12, 4, 1), (2, 0, 3) gives (3, 3, 1), () gives ().

    The shape may be too large for any tensor (the strides are below 2**63). Not allowed: asking a tensor, as in
    `torch.empty(shape).stride()`, not even on the meta device.

    Raises ValueError that names `shape` if a size is negative.
    """
    # TODO: multiply the sizes from the last to the first.
    raise NotImplementedError("contiguous_strides: multiply the sizes from the last to the first")


def storage_index(x: Tensor, index: Sequence[int]) -> int:
    """Return the position of the element `x[index]` in the storage of x, an int, counted in elements.

    `index` has one int for each dimension of x, () for a 0-d x; a negative one counts from the end.

    Raises ValueError that names `index` if it has another number of entries, or one is out of range.
    """
    # TODO: go index[d] steps along each dimension.
    raise NotImplementedError("storage_index: go index[d] steps along each dimension")


def shares_storage(a: Tensor, b: Tensor) -> bool:
    """Return True where both tensors are views of one storage, else False.

    They may differ in offset, shape and dtype, have no element in common (the two halves of a tensor share its
    storage), or be detached. Neither is empty, on the meta device, or made from a NumPy array.
    """
    # TODO: compare the storages, not the addresses.
    raise NotImplementedError("shares_storage: compare the storages, not the addresses")


def sliding_windows(x: Tensor, size: int, step: int = 1) -> Tensor:
    """Return all windows of `size` elements along the last dimension of x, each `step` after the last.

    For x of shape (..., n) the result has shape (..., windows, size), with windows = (n - size) // step + 1,
    and its element [..., i, j] is x[..., i * step + j]. Elements at the end that fill no window are left out.

    The result is a view: it shares the storage of x. x has any dtype. Gradients reach x.

    Not allowed: `Tensor.unfold`.

    Raises ValueError that names `size` if it is not in 1..n, or `step` if it is below 1.
    """
    # TODO: view the storage with one dimension more.
    raise NotImplementedError("sliding_windows: view the storage with one dimension more")
