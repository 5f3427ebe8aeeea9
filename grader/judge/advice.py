"""Advice on an error that a student's code raised, for the message of its test.

Much of it is about differences between the sandbox and the student's own machine.
"""

from __future__ import annotations

import re
import sys

from grader.judge.outcomes import StudentError

# By the type and text of an exception; the first match counts.
_ADVICE = tuple(
    (re.compile(pattern), f" {sentence}")
    for pattern, sentence in (
        ("allocate memory", "It asked for more memory than an exercise may use."),
        (
            "^SystemExit: 2$",
            "Judged programs start without arguments: give each argument that yours parses a default.",
        ),
        (
            "^SystemExit",
            "A module must not end the program: remove the call that exits.",
        ),
        (
            "^ModuleNotFoundError",
            "Your file is judged alone: files beside it are not there. Other packages may not be installed.",
        ),
        (
            "^FileNotFoundError|attempted relative import|Dataset not found|filename .* does not exist",
            "Your file is judged alone: files beside it are not there.",
        ),
        (
            r"^NameError: name '(get_ipython|display)' is not defined",
            "Such lines work only in notebooks; delete this line.",
        ),
        (
            (
                "URLError|gaierror|name resolution|Name or service not known|Network is unreachable|"
                "Connection refused|Max retries exceeded|ConnectionError"
            ),
            "There is no network where your code is judged: use only the data that you are given.",
        ),
        (
            "'headless' is currently running|no display name|connect to display",
            "There is no display where your code is judged: do not choose a backend or open a window.",
        ),
        # Without a path, the error is about a semaphore that two processes share.
        (
            "Read-only file system$|daemonic processes",
            "Your code is judged in one process: use num_workers=0 and no multiprocessing.",
        ),
        (
            "Read-only file system|PermissionError: .*Permission denied: '",
            "Judged code can read and write files only in its working folder.",
        ),
        (
            "PermissionError: .*Operation not permitted",
            "Judged code cannot start another program or use the network.",
        ),
        (
            "not compiled with CUDA|CUDA.*not compiled|No CUDA|NVIDIA driver|support for mps",
            "There is no GPU here: stay on the device of your inputs.",
        ),
        (
            "^(AttributeError|TypeError): .*'(method|builtin_function_or_method)'",
            "Are parentheses missing? Without (), you have the method and not its result.",
        ),
        (
            r"torch\.return_types\.|can't multiply sequence by non-int of type",
            (
                "A tuple or list is not a tensor: with a dimension, max, min, median, sort and topk return a "
                "pair of values and indices, so take .values."
            ),
        ),
        # Torch's own messages. In hidden tests, students read the advice without them.
        (
            "leaf Variable that requires grad is being used in an in-place operation",
            (
                "Autograd records each operation here, and cannot record a change of a leaf, such as a "
                "parameter: change its values under torch.no_grad()."
            ),
        ),
        (
            "modified by an inplace operation",
            (
                "The backward pass needs a value that was changed in place after its use (by +=, by a method "
                "whose name ends in _, or by an optimizer's step): compute a new tensor there."
            ),
        ),
        (
            "more than one element of the written-to tensor",
            (
                "This changes an expanded tensor in place, where one number in memory stands for several "
                "elements: compute a new tensor instead."
            ),
        ),
        (
            "backward through the graph a second time",
            (
                "A backward pass frees its graph: compute the loss anew for each one, and detach what you keep "
                "from an earlier step. If one graph needs several passes, keep it with retain_graph=True."
            ),
        ),
        (
            "element 0 of tensors does not require grad",
            (
                "Nothing connects this value with a tensor that requires a gradient: is the graph cut on the "
                "way (detach, .data, .item(), torch.no_grad(), a new tensor of its values)?"
            ),
        ),
        (
            "grad can be implicitly created only for scalar outputs",
            "A backward pass starts at one number: reduce the tensor to one first, as with sum() or mean().",
        ),
        (
            r"Can't call numpy\(\) on Tensor that requires grad",
            "A NumPy array has no graph, so gradients end there: take the values of a detached tensor.",
        ),
        (
            "Constraints violated",
            (
                "torch.export made a constant of a size that you declare as dynamic, as it does of each size "
                "of 1: export with more rows."
            ),
        ),
        (
            "shapes cannot be multiplied",
            "The columns of the first matrix have to be as many as the rows of the second: print both shapes.",
        ),
        (
            r"^RuntimeError: The size of tensor a \(\d+\) must match the size of tensor b",
            "The shapes do not broadcast: from the last dimension on, sizes are equal, or one of them is 1.",
        ),
        (
            "Dimension out of range|too many indices for tensor",
            "Dimensions are counted from 0, or backward from -1, and this tensor has fewer: print its shape.",
        ),
        (
            (
                r"^(RuntimeError|IndexError): (?is:.*(\b\d-?D\b.*(tensor|input|argument)|"
                r"(tensor|input|argument).*\b\d-?D\b|\d dimensions|number of dimensions|must be a matrix|"
                r"on matrices))|^ValueError: .*(?i:expected)( input to be)? \d-?D\b"
            ),
            (
                "The tensor has more or fewer dimensions than this operation takes: print its shape. unsqueeze "
                "adds a dimension of size 1; squeeze, flatten and reshape take dimensions away."
            ),
        ),
        (
            "view size is not compatible with input tensor's size and stride",
            "The elements do not lie in memory in the order that view needs: reshape copies them if it must.",
        ),
        (
            "Expected all tensors to be on the same device",
            "Create new tensors on the device of your inputs, as with device=x.device.",
        ),
        (
            "expected scalar type .* but found|must have the same dtype|to have the same dtype, but got",
            (
                "Tensors of different dtypes meet here: create new ones in the dtype of your inputs, as with "
                "dtype=x.dtype, or convert one of them."
            ),
        ),
    )
)
_PRODUCT = re.compile(r"cannot be multiplied \((\d+)x(\d+) and (\d+)x(\d+)\)")


def advice_on(error: StudentError) -> str:
    """Return a sentence, after a space, on how to fix an exception; empty if there is nothing to add."""
    if isinstance(error, MemoryError):
        return " It asked for more memory than an exercise may use."
    if isinstance(error, RecursionError):
        return (
            f" It recursed deeper than Python's limit, {sys.getrecursionlimit():,} calls unless the file "
            "changes it: use a loop, or end the recursion earlier."
        )
    if (sizes := _PRODUCT.search(error.text)) and sizes[2] == sizes[4] != sizes[3]:
        return " They fit if the second one is transposed (.T)."
    told = f"{error.type_name}: {error.text}"
    return next((sentence for pattern, sentence in _ADVICE if pattern.search(told)), "")
