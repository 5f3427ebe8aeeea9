"""Storage, strides and views: how a tensor finds its elements in memory.

A tensor is a view of its storage, a row of elements in memory. It begins at the offset
`x.storage_offset()`, and one step along dimension d moves on by `x.stride(d)` elements. So x[i, j] is at the
position

    x.storage_offset() + i * x.stride(0) + j * x.stride(1)

A transposed, sliced or expanded tensor has another offset and other strides over the same storage: no
element is copied. PyTorch counts elements; NumPy's strides count bytes.

Source: E. Z. Yang, "PyTorch internals" (2019), and the PyTorch documentation, "Tensor Views".
"""

from collections.abc import Sequence

from torch import Tensor


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides, in elements, of a row-major tensor of this shape.

    The stride of the last dimension is 1; that of every other one is the product of the sizes behind it,
    where a size of 0 counts as 1, as in PyTorch: (2, 3, 4) gives (12, 4, 1), (2, 0, 3) gives (3, 3, 1),
    () gives ().

    `shape` is a tuple, a list or a `torch.Size`. It may be too large for any tensor to exist; the strides
    are below 2**63. Compute them yourself: `torch.empty(shape).stride()` is not allowed, not even on the
    meta device.

    Raises:
        ValueError: if a size is negative (the message names `shape`).
    """
    # TODO: multiply the sizes from the last to the first.
    raise NotImplementedError("contiguous_strides: multiply the sizes from the last to the first")


def storage_index(x: Tensor, index: Sequence[int]) -> int:
    """Return the position of the element `x[index]` in the storage of x, an int, counted in elements.

    `index` has one int for each dimension of x; a negative one counts from the end, as in x[-1]. x may be
    transposed, sliced, expanded, or 0-d (with the index ()).

    Raises:
        ValueError: if `index` does not have one entry for each dimension of x, or if an entry is out of
            range (the message names `index`).
    """
    # TODO: go index[d] steps along each dimension.
    raise NotImplementedError("storage_index: go index[d] steps along each dimension")


def shares_storage(a: Tensor, b: Tensor) -> bool:
    """Return True where both tensors are views of one storage, else False.

    They may differ in offset, shape and dtype, and need not have an element in common: the two halves of a
    tensor share its storage. Either may be detached from its graph. Two storages with equal values are
    not one.

    Neither tensor is empty, on the meta device, or made from a NumPy array.
    """
    # TODO: compare the storages, not the addresses.
    raise NotImplementedError("shares_storage: compare the storages, not the addresses")


def sliding_windows(x: Tensor, size: int, step: int = 1) -> Tensor:
    """Return all windows of `size` elements along the last dimension of x, each `step` after the last.

    For x of shape (..., n) the result has shape (..., windows, size), with
    windows = (n - size) // step + 1, and its element [..., i, j] is x[..., i * step + j]. Elements at the
    end that do not fill a window are left out.

    The result is a view: it shares the storage of x, and a later change of x shows in it. x may have any
    strides, any offset and any dtype, and leading dimensions of size 0. Gradients reach x.

    Not allowed: `Tensor.unfold`, however reached.

    Raises:
        ValueError: if `size` is not in 1..n, or if `step` is below 1 (the message names the argument).
    """
    # TODO: view the storage with one dimension more.
    raise NotImplementedError("sliding_windows: view the storage with one dimension more")
