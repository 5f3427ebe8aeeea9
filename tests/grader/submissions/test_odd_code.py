"""Each row of the table flags odd code, and not its innocent twin."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.course.manifest import load_course
from grader.submissions.odd_code import odd_code, odd_names, ordinary_in, reasons

COURSE = load_course(Path(__file__).parents[3])

# For each row: odd code, and an innocent twin.
ROWS = {
    "the end of a process": (
        "import os; os._exit(0)",
        "import os; os.environ['A'] = os.path.join('b')",
    ),
    "a process": ("from subprocess import run", "import os; os.listdir('.'), os.cpu_count()"),
    "a process of torch": ("import torch.multiprocessing as mp", "import torch.utils.data as data"),
    "a thread": (
        "import threading; threading.Thread(target=f).start()",
        "import threading; threading.Lock()",
    ),
    "a pool": ("from concurrent.futures import ThreadPoolExecutor", "import queue; queue.Queue()"),
    "a socket": ("import socket", "import torch; torch.hann_window(3)"),
    "a signal": (
        "import signal; signal.alarm(1)",
        "from torch import signal; signal.windows.hann(3)",
    ),
    "the end of Python": (
        "import atexit; atexit.register(f)",
        "import contextlib; contextlib.ExitStack()",
    ),
    "a dead object": (
        "from weakref import finalize",
        "import weakref; weakref.WeakKeyDictionary()",
    ),
    "a collection": ("import gc; gc.callbacks.append(f)", "import gc; gc.collect()"),
    "memory": ("import ctypes.util", "import struct; struct.pack('<f', 1.0)"),
    "memory by NumPy": (
        "import numpy as np; np.lib.stride_tricks.as_strided(x, (1 << 40,), (1,))",
        "import numpy as np; np.lib.stride_tricks.sliding_window_view(x, 3); x.as_strided((2,), (1,))",
    ),
    "memory by an interface": (
        "class A:\n    __array_interface__ = {'data': (id(x), False)}",
        "class A:\n    def __array__(self, dtype=None): return self.data",
    ),
    "pickle": ("import pickle", "import json, copy; json.loads('{}'), copy.deepcopy(x)"),
    "what a file may name": (
        "import torch; torch.serialization.add_safe_globals([f])",
        "import torch; torch.serialization.load",
    ),
    "a file that may run code": (
        "import torch; torch.load(f, weights_only=False)",
        "import torch; torch.load(f, 'cpu', weights_only=True)",
    ),
    "an item": (
        "import torch\nt = [torch][0]\nt.rand = f",
        "import torch\nx = [torch.rand][0]\nx(3)",
    ),
    "a loop": (
        "import torch\nfor m in (torch, 1): m.rand = f",
        "from torch import nn\nfor act in [nn.ReLU, nn.Tanh]:\n    act = act()\n    act.inplace = True",
    ),
    "a default": (
        "import torch\ndef g(m=torch): m.rand = f",
        "import torch\ndef g(m=torch.relu): return m(3)",
    ),
    "a pair": (
        "import torch\na, b = torch, 1\na.rand = f",
        "import torch\na, b = torch.rand(3), 1\na.x = b",
    ),
    "a name in passing": (
        "import torch\nif t := torch: t.rand = f",
        "import torch\nif t := torch.rand(3): t.x = f",
    ),
    "a pattern": (
        "import torch\nmatch torch:\n    case object(_C=c): c.x",
        "match x:\n    case dict(items=c): c.y = f",
    ),
    "a switch that is computed": ("load(f, allow_pickle=x)", "load(f, allow_pickle=False)"),
    "switches that are not seen": ("import torch; torch.load(f, **options)", "load(f, **options)"),
    "a switch without a name": (
        "import numpy as np; np.load(f, None, True)",
        "import numpy as np; np.load(f, 'r')",
    ),
    "a switch of the environment": (
        "import os; os.environ['TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD'] = '1'",
        "import os; os.environ['OMP_NUM_THREADS'] = '1'",
    ),
    "importlib": ("from importlib import reload", "from importlib.metadata import version"),
    "an import by its name": ("torch = __import__('torch')", "import torch; torch.nn"),
    "loaded modules": (
        "import sys; sys.modules['x']",
        "import sys; sys.argv, sys.path.insert(0, '.')",
    ),
    "a module in a module": (
        "import random; random._os.sys.modules",
        "import random; random._inst.seed(0)",
    ),
    "the module of warnings": (
        "import warnings; warnings.catch_warnings()._module",
        "import warnings\nwith warnings.catch_warnings(): warnings.simplefilter('ignore')",
    ),
    "a frame": (
        "import sys; sys._getframe(1)",
        "import sys; sys.exc_info(), sys.getrecursionlimit()",
    ),
    "a stack": (
        "from inspect import stack as s",
        "import inspect; inspect.signature(f), inspect.isclass(f)",
    ),
    "all objects": ("import gc; gc.get_objects()", "import gc; gc.disable(), gc.isenabled()"),
    "an attribute of a frame": (
        "error.__traceback__.tb_frame.f_back",
        "self.tb_writer = w; x.gi_joe, x.f_score; raise error.with_traceback(error.__traceback__)",
    ),
    "the same as a text": ("getattr(error, 'tb_frame')", "print('tb_frame and f_back are names')"),
    "the same in a pattern": (
        "match error:\n    case object(tb_frame=x): pass",
        "match error:\n    case object(args=x): pass",
    ),
    "a function's globals": (
        "f.__globals__['x'] = 1",
        "globals()['x'] = f.__defaults__, f.__name__",
    ),
    "a library's closures": (
        "import torch; torch.no_grad.__closure__",
        "f.__closure__, f.__code__.co_argcount",
    ),
    "subclasses": ("object.__subclasses__()", "class A: pass\nA.__subclasses__(), A.__mro__"),
    "a text that runs": (
        "exec(text)",
        "import re, torch; re.compile('a'), torch.compile(f), model.eval()",
    ),
    "a builtin of that name": (
        "compile('1', '', 'eval')",
        "def f(compile=True):\n    if compile: return compile",
    ),
    "a text that NumPy runs": (
        "import numpy; numpy.testing.measure('x()')",
        "import numpy; numpy.testing.assert_allclose(x, y)",
    ),
    "builtins": (
        "import builtins; builtins.isinstance = f",
        "isinstance(x, int); class_ = type(x)",
    ),
    "the owner of a builtin": (
        "len.__self__.isinstance = f",
        "bound = model.forward; bound.__self__ is model",
    ),
    "a mock": ("from unittest.mock import patch", "import unittest; unittest.main()"),
    "a class that passes for another": (
        "from collections.abc import Sized; Sized.register(A)",
        "from functools import singledispatch\n@singledispatch\ndef f(x): pass\nf.register(int, g)",
    ),
    "the judge": (
        "import grader.sandbox",
        "grader = 1; grader.real",
    ),
    "the judge's tool": ("import pytest", "import doctest; doctest.testmod()"),
    "hooks for all modules": (
        "from torch.nn.modules.module import register_module_forward_hook",
        "model.register_forward_hook(f); model.register_full_backward_hook(f)",
    ),
    "modes of torch": (
        "from torch.overrides import TorchFunctionMode",
        "import torch\nwith torch.no_grad(), torch.inference_mode(): pass",
    ),
    "a profiler": ("import torch.profiler", "import time; time.perf_counter()"),
    "a tool that reads by paths": (
        "from torch.ao.quantization.utils import getattr_from_fqn",
        "model.get_parameter('0.weight'), model.get_submodule('0')",
    ),
    "hooks that torch makes": (
        "from torch.utils.hooks import BackwardHook",
        "from torch.utils.hooks import RemovableHandle\nhandles: list[RemovableHandle] = []",
    ),
    "a dispatch mode": (
        "from torch.utils._python_dispatch import TorchDispatchMode",
        "from torch.utils._pytree import tree_map",
    ),
    "a private name": (
        "import torch; torch._C._nn.gelu",
        "import torch; torch._foreach_add_(a, b); x._version",
    ),
    "a private class": (
        "import copy; copy._deepcopy_dispatch",
        "from torch import nn; isinstance(x, nn.modules.batchnorm._BatchNorm)",
    ),
    "dispatch of one's own": (
        "class A:\n    def __torch_function__(cls, f, types): return f",
        "class A:\n    def __call__(self, x): return x\n    def __eq__(self, other): return True",
    ),
    "another module": ("import einops", "import weakref, ast, zipfile, contextvars, tracemalloc"),
    "all of a module": ("from os import *", "from torch.nn import *\nfrom typing import *"),
    "a word": (
        "open('/proc/self/mem')",
        '"""It reads no /proc/ and no results.json."""\nopen("data.json")',
    ),
    "a library's function": (
        "import torch\ntorch.rand = f",
        "import torch\nmodel.forward = f; rand = torch.rand",
    ),
    "a library's class": (
        "from torch import nn\nnn.Linear.forward = f",
        "from torch import nn\nclass Linear(nn.Linear): pass\nLinear.forward = f",
    ),
    "another name for it": (
        "from torch import nn as layers\nM = layers.Module\nM.__call__ = f",
        "from torch import nn\nlayer = nn.Linear\ndef f(layer): layer.bias = None",
    ),
    "a star": (
        "from torch import *\nTensor.__eq__ = f",
        "from torch import *\ndef f(x): x.grad = None",
    ),
    "a with statement": ("import torch\nwith a as torch.rand: pass", "with a as self.file: pass"),
    "a deletion": ("import random\ndel random.random", "del model.bias, x.grad"),
    "setattr": (
        "from torch import nn\nsetattr(nn.Module, 'x', 1)",
        "setattr(model, 'x', 1); setattr(self, name, 1)",
    ),
    "object.__setattr__": (
        "import torch\nobject.__setattr__(torch, 'rand', f)",
        "object.__setattr__(self, 'x', 1); super().__setattr__(k, v)",
    ),
    "type.__setattr__": ("type.__setattr__(k, 'forward', f)", "type(k).__name__"),
    "update_wrapper": (
        "import functools, torch\nfunctools.update_wrapper(torch.rand, f)",
        "import functools\nfunctools.update_wrapper(self, f)\n@functools.wraps(f)\ndef g(): pass",
    ),
    "vars": ("import torch\nvars(torch)['rand'] = f", "vars(self)['x'] = 1; sorted(vars(options))"),
    "__dict__": ("import torch\ntorch.__dict__.update(rand=f)", "self.__dict__.update(options)"),
    "getattr": (
        "import torch\ngetattr(torch, 'Tensor').__eq__ = f",
        "getattr(model, 'head').bias = None",
    ),
    "a class of an object": (
        "def f(model): type(model).forward = g",
        "class A:\n    def f(self): type(self).count += 1; self.__class__.seen = 1",
    ),
    "the same by its class": (
        "def f(model): model.__class__.forward = g",
        "x.__class__.__name__, type(x)(3)",
    ),
    "another class": (
        "model.__class__ = Fake",
        "class A:\n    def f(self): return self.__class__()",
    ),
    "a class that says so": (
        "class A:\n    @property\n    def __class__(self): return dict",
        "class A:\n    @property\n    def kind(self): return dict",
    ),
    "a tensor": (
        "from torch import Tensor as T\nclass A(T): pass",
        "from torch import nn\nclass A(nn.Module): pass",
    ),
    "a parameter": (
        "import torch\nA = type('A', (torch.nn.Parameter,), {})",
        "A = type('A', (object,), {'x': 1})\nfrom torch import Tensor\nisinstance(x, (Tensor, int))",
    ),
    "a class of a class": (
        "class A(type(model)): pass",
        "class M(type):\n    def __call__(cls): pass",
    ),
    "a module in other hands": (
        "import torch, argparse\nargparse.ArgumentParser().parse_args([], namespace=torch)",
        "import torch\nprint(torch, dir(torch), hasattr(torch, 'compile'))",
    ),
    "a computed name of sys": (
        "import sys\ngetattr(sys, '_get' + 'frame')",
        "import logging\ngetattr(logging, level)",
    ),
    "fields that are computed": (
        "import collections\nP = collections.namedtuple('P', ['tb_' + x])\nmatch e:\n    case P(f): pass",
        (
            "import collections\nR = collections.namedtuple('R', header)\n"
            "Q = collections.namedtuple('Q', 'x y')\nmatch e:\n    case {'a': x}: pass"
        ),
    ),
}
# Lookups that are odd only if the exercise forbids names.
LOOKUPS = {
    "a computed name": ("import torch\ngetattr(torch.optim, 'Ad' + 'am')", "getattr(self, name)"),
    "names of a library": (
        "from torch import optim\noptim.__dict__['Ad' + 'am']",
        "vars(module)[name]",
    ),
}
# Code that people and libraries write without bad intent.
HONEST = [
    "class A:\n    def __copy__(self): return A()\n    def __del__(self): pass",
    "class A:\n    def __init_subclass__(cls, **k): super().__init_subclass__(**k)",
    "class A:\n    def __getattribute__(self, n): return super().__getattribute__(n)",
    "import abc\nclass A(metaclass=abc.ABCMeta): pass",
    "from typing import TypedDict\nclass A(TypedDict, total=False): x: int",
    "import traceback\ntry: f()\nexcept ValueError: traceback.print_exc(); t = traceback.format_exc()",
    "import numpy as np\nf(np.copy(a), np.sort(b), np.random.default_rng(0))",
    "import logging, json, argparse, string, sys, io; logging.info(sys.argv); sys.stdout = io.StringIO()",
    "import operator; sorted(rows, key=operator.attrgetter(name)); operator.mul(2, 3)",
    "import torch; torch.backends.cudnn.benchmark = False; torch._dynamo",
    "import functools\ndef f(g):\n    @functools.wraps(g)\n    def h(*a): return g(*a)\n    return h",
    "import copy; y = copy.copy(x); y.value = 1; copy.deepcopy(y).value = 2",
    "from torch import nn\nlayers = {'a': nn.ReLU}\nlayer = layers.get('a')(); layer.inplace = True",
    "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass A: x: int = 0",
    "import argparse, typing\ndef f(parsers: argparse._SubParsersAction, kind: typing._GenericAlias): pass",
    "from torch.nn.modules.utils import _pair; import torch; torch._assert(x, 'y'); torch._check(x)",
    "from torch.nn.modules.loss import _Loss\nfrom torch.nn.modules.dropout import _DropoutNd",
    "modes = {'early_exit': 1, '__exit__': 2}",
    "from torch.optim.lr_scheduler import _LRScheduler\ndef f(scheduler: _LRScheduler): pass",
    "import types; model.forward = types.MethodType(f, model); types.SimpleNamespace(x=1).x = 2",
    "import torch\nx = torch.ones(3)\nx.requires_grad = True; torch.ones(3).kind = 1",
    "import timeit; timeit.timeit(lambda: f(x), number=3)",
    "import torch\nF_ = torch.nn.functional\ndef use(f=F_): return f.relu",
]


def found(source: str, *ordinary: str) -> list[str]:
    return [oddity.what for oddity in odd_code(source.encode(), ordinary)]


@pytest.mark.parametrize("row", ROWS)
def test_each_row_flags_odd_code_and_not_its_innocent_twin(row: str) -> None:
    odd, innocent = ROWS[row]
    assert found(odd, "getattr") != []
    assert found(innocent, "getattr", "torch._dynamo") == []


@pytest.mark.parametrize("row", LOOKUPS)
def test_a_looked_up_name_is_odd_if_names_are_forbidden(row: str) -> None:
    odd, innocent = LOOKUPS[row]
    assert found(odd) != []
    assert found(odd, "getattr") == []
    assert found(innocent) == []


@pytest.mark.parametrize("source", HONEST)
def test_ordinary_code_is_not_odd(source: str) -> None:
    assert found(source, "getattr", "torch._dynamo") == []


@pytest.mark.thorough
def test_no_right_answer_of_the_course_is_held() -> None:
    held = {}
    for exercise in COURSE.exercises:
        stub = COURSE.stub(exercise).source
        ordinary = ordinary_in(exercise, stub)
        for path in [COURSE.solution(exercise), *COURSE.rights(exercise)]:
            if why := reasons(path.read_bytes(), ordinary):
                held[path.name] = why
    assert held == {}


def test_names_the_course_calls_ordinary_are_matched_whole() -> None:
    source = "import torch.fx\nimport torch\ntorch._dynamo.reset(), torch._dynamo2\n"
    assert odd_names(source.encode()) == {"torch.fx", "torch._dynamo", "torch._dynamo2"}
    assert found(source, "torch._dynamo", "torch.fx") == ["uses torch._dynamo2"]


def test_replacing_a_name_the_course_calls_ordinary_is_odd() -> None:
    source = "import torch.profiler\ntorch.profiler.profile = Fake"
    assert found(source, "torch.profiler") == ["replaces torch.profiler.profile"]


def test_a_finding_has_its_first_line_and_a_count() -> None:
    (oddity,) = odd_code(b"import math\nimport ctypes\n\nfrom ctypes import cast\n")
    assert (oddity.name, oddity.line, oddity.times) == ("ctypes", 2, 2)
    assert oddity.what == "imports ctypes, which reaches into the process's memory"


def test_a_relative_star_import_has_no_meaning_and_hides_none() -> None:
    assert found("from . import *\nx\n") == []
    hiding = "from os import *\ndef f():\n    from .helpers import *\n    system('x')\n"
    assert "uses os.system" in found(hiding)


def test_a_mistake_in_the_check_holds_the_points(monkeypatch: pytest.MonkeyPatch) -> None:
    def mistaken(_: object) -> str:
        raise IndexError

    monkeypatch.setattr("grader.submissions.odd_code._bound", mistaken)
    (oddity,) = odd_code(b"x = 1\n")
    assert oddity.name == "unchecked"


def test_a_long_chain_of_calls_is_odd_without_being_followed() -> None:
    (oddity,) = odd_code(b"import torch\nx = torch" + b".a()" * 850 + b"\n")
    assert oddity.name == "nested"


@pytest.mark.parametrize(
    "source",
    [
        b"x" + b"[0]" * 3000 + b" = 1\n",
        b"import torch\nx = torch" + b".a" * 5000 + b"\n",
        b"import torch\n" + b"".join(b"a%d = torch.b%d\n" % (n, n) for n in range(3000)),
        b"import torch\na0 = torch\n"
        + b"".join(b"a%d = a%d.b\n" % (n + 1, n) for n in range(3000)),
        b"def f(x): x.y = 1\n" + b"f(f)\n" * 5000,
        b"".join(b"def f%d(x): x.y = f%d\n" % (n, n) for n in range(3000)),
        b"x = " + b"(" * 150 + b"1" + b",)" * 150 + b"\n",
        b"x = f" + b"()" * 3000 + b"\n",
    ],
    ids=["subscripts", "attributes", "names", "aliases", "calls", "functions", "tuples", "chain"],
)
def test_a_file_made_to_be_slow_is_still_checked(source: bytes) -> None:
    assert len(odd_code(source)) <= 1
