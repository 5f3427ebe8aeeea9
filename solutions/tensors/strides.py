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
    # begin solution: multiply the sizes from the last to the first
    if any(size < 0 for size in shape):
        raise ValueError(f"shape has a negative size: {tuple(shape)}")
    strides = []
    stride = 1
    for size in reversed(shape):
        strides.append(stride)
        stride *= max(size, 1)
    return tuple(reversed(strides))
    # end solution


def storage_index(x: Tensor, index: Sequence[int]) -> int:
    """Return the position of the element `x[index]` in the storage of x, an int, counted in elements.

    `index` has one int for each dimension of x, () for a 0-d x; a negative one counts from the end.

    Raises ValueError that names `index` if it has another number of entries, or one is out of range.
    """
    # begin solution: go index[d] steps along each dimension
    if len(index) != x.dim():
        raise ValueError(f"index needs {x.dim()} entries, got {len(index)}")
    position = int(x.storage_offset())
    for entry, size, stride in zip(index, x.shape, x.stride(), strict=True):
        if not -size <= entry < size:
            raise ValueError(f"index has the entry {entry}, out of range for a size of {size}")
        # A negative entry times the stride would lead to a place before the tensor.
        position += (entry + size if entry < 0 else entry) * stride
    return position
    # end solution


def shares_storage(a: Tensor, b: Tensor) -> bool:
    """Return True where both tensors are views of one storage, else False.

    They may differ in offset, shape and dtype, have no element in common (the two halves of a tensor share its
    storage), or be detached. Neither is empty, on the meta device, or made from a NumPy array.
    """
    # begin solution: compare the storages, not the addresses
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
    # end solution


def sliding_windows(x: Tensor, size: int, step: int = 1) -> Tensor:
    """Return all windows of `size` elements along the last dimension of x, each `step` after the last.

    For x of shape (..., n) the result has shape (..., windows, size), with windows = (n - size) // step + 1,
    and its element [..., i, j] is x[..., i * step + j]. Elements at the end that fill no window are left out.

    The result is a view: it shares the storage of x. x has any dtype. Gradients reach x.

    Not allowed: `Tensor.unfold`.

    Raises ValueError that names `size` if it is not in 1..n, or `step` if it is below 1.
    """
    # begin solution: view the storage with one dimension more
    n = x.shape[-1]
    if not 1 <= size <= n:
        raise ValueError(f"size must be in 1..{n}, got {size}")
    if step < 1:
        raise ValueError(f"step must be at least 1, got {step}")
    *leading, stride = x.stride()
    windows = (n - size) // step + 1
    # The next window begins `step` elements of x later, and the next element in a window is one later.
    return x.as_strided((*x.shape[:-1], windows, size), (*leading, step * stride, stride))
    # end solution
