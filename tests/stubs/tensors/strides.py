"""Storage, strides and views: how a tensor finds its elements in memory.

A tensor is a view of its storage, a row of elements in memory, all of one dtype. It begins at the offset
`x.storage_offset()`, and one step along dimension d leads `x.stride(d)` elements on. So x[i, j] stands
at the position

    x.storage_offset() + i * x.stride(0) + j * x.stride(1)

A transposed, sliced or expanded tensor is another offset and other strides over the same storage: no
element is copied. PyTorch counts in elements; NumPy's strides are bytes.

Source: E. Z. Yang, "PyTorch internals" (2019), and the PyTorch documentation, "Tensor Views".
"""

from collections.abc import Sequence

from torch import Tensor


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides, in elements, of a row-major tensor of this shape.

    The last dimension has stride 1, every other one the product of the sizes behind it, where a size
    of 0 counts as 1, as in PyTorch: (2, 3, 4) gives (12, 4, 1), (2, 0, 3) gives (3, 3, 1), () gives ().

    `shape` is a tuple, a list or a `torch.Size`. It may be too large for any tensor to exist; the strides
    are below 2**63.

    Not allowed: asking a tensor, as in `torch.empty(shape).stride()`, on the device meta neither.

    Raises:
        ValueError: if a size is negative (the message names `shape`).
    """
    # TODO: multiply the sizes from the last to the first.
    raise NotImplementedError("contiguous_strides: multiply the sizes from the last to the first")


def storage_index(x: Tensor, index: Sequence[int]) -> int:
    """Return the position of the element `x[index]` in the storage of x, an int, counted in elements.

    `index` has one int for each dimension of x; a negative one counts from the end, as in x[-1]. The
    strides and the offset of x may be any: x may be transposed, sliced, expanded, or 0-d (with the
    index ()).

    Raises:
        ValueError: if `index` has another number of entries than x has dimensions, or if an entry is
            out of range (the message names `index`).
    """
    # TODO: go index[d] steps along each dimension.
    raise NotImplementedError("storage_index: go index[d] steps along each dimension")


def shares_storage(a: Tensor, b: Tensor) -> bool:
    """Return True where both tensors are views of one storage, else False.

    Their offsets, shapes and dtypes may be any. They need not have an element in common: the two halves
    of a tensor share its storage. Each may be attached to a graph or detached. Tensors with equal
    values in two storages are False.

    Not judged: tensors without elements, on the device meta, or made from the same NumPy array.
    """
    # TODO: compare the storages, not the addresses.
    raise NotImplementedError("shares_storage: compare the storages, not the addresses")


def sliding_windows(x: Tensor, size: int, step: int = 1) -> Tensor:
    """Return all windows of `size` elements along the last dimension of x, each `step` after the last.

    For x of shape (..., n) the result has shape (..., windows, size), with
    windows = (n - size) // step + 1, and its element [..., i, j] is x[..., i * step + j]. A rest that
    fills no window is left out.

    The result is a view: it shares the storage of x, copies nothing, and a later change of x shows in
    it. x may have any strides and any offset, leading dimensions of size 0, and any dtype. Gradients
    reach x. x itself stays as it is.

    Not allowed: `Tensor.unfold`, however reached.

    Raises:
        ValueError: if `size` is not in 1..n, if `step` is below 1, or if `x` is 0-d (the message names
            the argument).
    """
    # TODO: view the storage with one dimension more.
    raise NotImplementedError("sliding_windows: view the storage with one dimension more")
