"""An exception is followed by a sentence of advice, if it has one likely cause."""

from __future__ import annotations

import pytest
import torch

from grader.findings import message_of, without_values
from grader.judge.outcomes import Frame, raised_error
from grader.judge.suite_run import meaning_of
from grader.sandbox.wire.messages import Raised

ALONE = "Your file is judged alone: files beside it are not there"
NO_NETWORK = "There is no network where your code is judged"
NO_DISPLAY = "There is no display where your code is judged"
NO_PROGRAM = "Judged code cannot start another program or use the network"
ONE_PROCESS = "use num_workers=0 and no multiprocessing"
PARENTHESES = "Are parentheses missing?"
WORKING_FOLDER = "can read and write files only in its working folder"


def shown(type_name: str, text: str) -> str:
    ancestry = (type_name, "Exception", "BaseException", "object")
    error = raised_error(Raised(type_name, ancestry, text, ()), (Frame(3, "<module>"),))
    return meaning_of(error).message


@pytest.mark.parametrize(
    ("type_name", "text", "advice"),
    [
        ("ModuleNotFoundError", "No module named 'google.colab'", ALONE),
        ("ModuleNotFoundError", "No module named 'utils'", ALONE),
        ("ImportError", "attempted relative import with no known parent package", ALONE),
        ("ImportError", "attempted relative import beyond top-level package", ALONE),
        ("FileNotFoundError", "[Errno 2] No such file or directory: 'data.csv'", ALONE),
        ("FileNotFoundError", "data.csv not found.", ALONE),
        ("ValueError", "The provided filename weights.pt does not exist", ALONE),
        (
            "RuntimeError",
            "Dataset not found. You can use download=True to download it",
            ALONE,
        ),
        ("NameError", "name 'get_ipython' is not defined", "only in notebooks; delete this line."),
        ("NameError", "name 'display' is not defined", "only in notebooks; delete this line."),
        ("URLError", "<urlopen error [Errno -3] Temporary failure in name resolution>", NO_NETWORK),
        (
            "ImportError",
            "Cannot load backend 'TkAgg' as 'headless' is currently running",
            NO_DISPLAY,
        ),
        ("TclError", "no display name and no $DISPLAY environment variable", NO_DISPLAY),
        ("PermissionError", "[Errno 1] Operation not permitted", NO_PROGRAM),
        ("OSError", "[Errno 30] Read-only file system", ONE_PROCESS),
        ("OSError", "[Errno 30] Read-only file system: '/etc/x'", WORKING_FOLDER),
        ("PermissionError", "[Errno 13] Permission denied: '/proc/self/fd'", WORKING_FOLDER),
        ("SystemExit", "2", "give each argument that yours parses a default."),
        ("SystemExit", "", "remove the call that exits."),
        ("AssertionError", "Torch not compiled with CUDA enabled", "There is no GPU here"),
        ("UserError", "Constraints violated (batch)! For more", ": export with more rows."),
        ("RuntimeError", "PyTorch is not linked with support for mps devices", "There is no GPU"),
        ("TypeError", "'method' object is not subscriptable", PARENTHESES),
        (
            "AttributeError",
            "'builtin_function_or_method' object has no attribute 'backward'",
            PARENTHESES,
        ),
    ],
)
def test_missing_things_are_explained(type_name: str, text: str, advice: str) -> None:
    assert advice in shown(type_name, text)


@pytest.mark.parametrize(
    ("type_name", "text"),
    [
        ("NameError", "name 'gate' is not defined"),
        ("ImportError", "cannot import name 'foo' from 'torch.nn'"),
        ("ValueError", "a display of 2 rows"),
        ("ValueError", "a tensor of 3 values"),
        ("RuntimeError", "expected a tensor on cuda"),
        ("ValueError", "embedding of 512 dimensions cannot be split into 7 heads"),
        ("ValueError", "The array has an inhomogeneous shape after 1 dimensions"),
        ("KeyError", "'input-2d'"),
    ],
)
def test_other_errors_get_no_advice(type_name: str, text: str) -> None:
    assert shown(type_name, text) == f"Your code raised {type_name}: {text} (line 3, in <module>)."


@pytest.mark.parametrize(
    ("mistake", "advice"),
    [
        ("torch.ones(2, requires_grad=True).add_(1)", "change its values under torch.no_grad()."),
        (
            "torch.ones(2, requires_grad=True)[:1].add_(1)",
            "change its values under torch.no_grad().",
        ),
        ("y = x.exp(); y.add_(1); y.sum().backward()", "compute a new tensor there."),
        ("torch.ones(3).expand(2, 3).add_(1)", "compute a new tensor instead."),
        ("2.0 * torch.ones(2, 3).max(1)", "so take .values."),
        ("torch.ones(2) + torch.ones(2, 3).sort(1)", "so take .values."),
        ("torch.ones(2, 3).min(1).exp()", "so take .values."),
        ("y = x.exp().sum(); y.backward(); y.backward()", "compute the loss anew"),
        ("x.detach().sum().backward()", "is the graph cut on the way"),
        ("x.exp().backward()", "reduce the tensor to one first"),
        ("x.numpy()", "take the values of a detached tensor."),
        ("torch.ones(2, 3) @ torch.ones(4, 5)", "print both shapes."),
        ("torch.ones(2) + torch.ones(3)", "sizes are equal, or one of them is 1."),
        ("torch.ones(2).sum(1)", "counted from 0, or backward from -1"),
        ("torch.ones(2)[0, 0]", "counted from 0, or backward from -1"),
        ("torch.bmm(torch.ones(2, 3), torch.ones(3, 2))", "more or fewer dimensions"),
        ("torch.mm(torch.ones(1, 2, 3), torch.ones(3, 2))", "more or fewer dimensions"),
        ("nn.Conv2d(1, 1, 3)(torch.ones(8, 8))", "more or fewer dimensions"),
        ("nn.BatchNorm2d(3)(torch.ones(2, 3))", "more or fewer dimensions"),
        ("nn.LSTM(3, 3)(torch.ones(1, 1, 1, 3))", "more or fewer dimensions"),
        ("torch.cat([torch.ones(2, 3), torch.ones(3)])", "more or fewer dimensions"),
        ("torch.ones(2, 3).permute(0, 1, 2)", "more or fewer dimensions"),
        ("torch.ones(2).mT", "more or fewer dimensions"),
        ("torch.ones(2, 3).T.view(6)", "reshape copies them if it must."),
        ("torch.ones(2, 3) @ torch.ones(3).double()", "create new ones in the dtype"),
        ("torch.ones(2, 3) @ torch.ones(3, 2).double()", "create new ones in the dtype"),
        ("nn.Linear(2, 3)(torch.ones(1, 2).double())", "create new ones in the dtype"),
        (
            "nn.functional.linear(torch.ones(1, 2).long(), torch.ones(3, 2))",
            "create new ones in the",
        ),
    ],
)
def test_errors_of_torch_are_explained(mistake: str, advice: str) -> None:
    names = {"torch": torch, "nn": torch.nn, "x": torch.ones(2, requires_grad=True)}
    with pytest.raises((RuntimeError, IndexError, ValueError, TypeError, AttributeError)) as caught:
        exec(mistake, names)
    type_name = type(caught.value).__name__
    raised = shown(type_name, str(caught.value))
    assert advice in raised
    # Hidden tests do not show the text of the exception, which may contain sizes.
    error = raised_error(
        Raised(type_name, (type_name, "Exception"), str(caught.value), ()),
        (Frame(3, "f"),),
    )
    finding = meaning_of(error).finding
    assert finding is not None
    assert advice in message_of(without_values(finding))


def test_two_devices_are_explained() -> None:
    text = "Expected all tensors to be on the same device, but found at least two devices, cpu and meta!"
    assert shown("RuntimeError", text).endswith("as with device=x.device.")


def test_a_module_without_forward_is_not_reported_as_unwritten() -> None:
    text = 'Module [Gate] is missing the required "forward" function'
    assert shown("NotImplementedError", text) == (
        "Gate has no method 'forward': is it missing, or misspelled?"
    )
