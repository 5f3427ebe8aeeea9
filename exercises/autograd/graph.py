"""Walk the graph that autograd has recorded, from a result back to its leaves.

`y.grad_fn` is the *node* of y. `node.next_functions` has a pair `(node, number)` for each input of the
operation: the node to which the gradient goes on, or None for an input that needs no gradient. The walk ends at
nodes called AccumulateGrad. Each belongs to one leaf, `node.variable`, and adds to its `.grad`.

    a = torch.ones(2, requires_grad=True)
    b = (a * 2).exp()             ExpBackward0 -> MulBackward0 -> AccumulateGrad (of a)

Every function leaves the graph whole: the caller can still run backward.

Source: PyTorch documentation, Autograd mechanics: How autograd encodes the history.

What holds for every exercise: docs/every-exercise.md.
"""

from collections.abc import Iterable, Sequence

import torch


def graph_nodes(output: torch.Tensor) -> list[str]:
    """Return the class names of all nodes of the graph of `output`, each node once.

    A name is `type(node).__name__`, such as `"MulBackward0"` (`node.name()` adds a prefix to some). The first
    is that of `output.grad_fn`. The others follow level by level (breadth first), and within a level in the
    order in which `next_functions` first names them. None is skipped. The list is empty where `output` has no
    `grad_fn`.

    Large graphs must work: a chain of 10,000 operations, or `y = y + y`, 100 times, whose graph has 101 nodes
    and 2**100 paths.
    """
    # TODO: visit each node once, breadth first.
    raise NotImplementedError("graph_nodes: visit each node once, breadth first")


def graph_leaves(output: torch.Tensor) -> list[torch.Tensor]:
    """Return the leaf tensors in which a backward pass from `output` would accumulate, each once.

    They are the tensors themselves, in the order of their nodes in `graph_nodes`. Where `output` is itself a
    leaf that requires a gradient, it is the only one; where nothing requires a gradient, the list is empty.
    Large graphs must work here, too.
    """
    # TODO: collect what the AccumulateGrad nodes belong to.
    raise NotImplementedError("graph_leaves: collect what the AccumulateGrad nodes belong to")


def separate_gradients(
    losses: Sequence[torch.Tensor], parameters: Iterable[torch.Tensor]
) -> list[list[torch.Tensor]]:
    """Return, for each loss, the gradient of that loss alone for each parameter.

    `result[i][j]` is the gradient of `losses[i]` for the j-th parameter, of its shape: zeros where the loss
    does not reach it, and without a graph (`requires_grad` is False). No `.grad` changes.

    Each loss is a 0-d tensor that requires a gradient; losses may share parts of their graphs. The caller can
    still call backward on each, the last one included. `parameters` are leaves that require a gradient.
    """
    # TODO: one pass for each loss, past every .grad.
    raise NotImplementedError("separate_gradients: one pass for each loss, past every .grad")
