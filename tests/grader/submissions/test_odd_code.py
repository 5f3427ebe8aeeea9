"""Code that attacks on a grader use is found however it is written, and what solutions need is not."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from grader.course.manifest import load_course
from grader.gradebook.review import held
from grader.submissions.odd_code import odd_code, odd_names, ordinary_in

COURSE = load_course(Path(__file__).parents[3])

# One way each to find, replace or imitate a probe that runs in the student's process.
WAYS = {
    "a property of a module's type": """
        import sys
        class Answers(type(sys)):
            @property
            def answer(self): return lambda: 1
        sys.modules[__name__].__class__ = Answers
        """,
    "a module's type by its name": """
        import types
        class Answers(types.ModuleType): pass
        """,
    "an alias of types": """
        import collections, types as t
        names = {"base": t}
        base = names["base"].ModuleType
        """,
    "a class made by a call": "Answers = type('Answers', (type(math),), {})",
    "the class of an object": "def f(model): model.__class__ = Fake",
    "a method of a type": "def f(model): type(model).forward = lambda self, x: x",
    "a method of an instance's class": "def f(model): model.__class__.forward = None",
    "objects that are alive": "import gc\nfor one in gc.get_objects(): print(one)",
    "frames": "import sys\nframe = sys._getframe(1)",
    "a frame of an exception": "try: 1 / 0\nexcept Exception as error: f = error.__traceback__.tb_frame",
    "a generator's frame": "g = (x for x in ()); g.gi_frame.f_back",
    "a stack": "from inspect import stack as s",
    "tracing": "import sys\nsys.settrace(print)",
    "profiling": "import threading\nthreading.setprofile(print)",
    "monitoring": "import sys as s\ns.monitoring.use_tool_id(1, 'x')",
    "an import hook": "import sys\nsys.meta_path.insert(0, Finder())",
    "a loaded module": "import sys\nprobe = sys.modules['probe']",
    "importlib": "from importlib import reload",
    "ctypes": "import ctypes.util",
    "ctypes of numpy": "import numpy as np\nnp.ctypeslib.load_library('x', '.')",
    "atexit": "import atexit",
    "a thread": "from threading import Thread",
    "a pool of threads": "from concurrent.futures import ThreadPoolExecutor",
    "a weak reference": "import weakref",
    "a destructor": "class A:\n    def __del__(self): pass",
    "builtins": "import builtins\nbuiltins.isinstance = lambda *a: True",
    "builtins by their name": "__builtins__['isinstance'] = None",
    "random seeds of one's own": "import random\nrandom.seed = print",
    "a tensor's method": "import torch\ntorch.Tensor.__eq__ = None",
    "an alias": "from torch import nn\nm = nn.Module\nm.__call__ = lambda self, x: x",
    "a loop over imports": "import torch, math\nfor m in (torch, math): m.sqrt = None",
    "a tuple": "import torch\na, b = 1, torch\nb.equal = None",
    "a walrus": "import torch\nif (t := torch): t.equal = None",
    "a function that patches": "import torch\ndef patch(m, f):\n    m.equal = f\npatch(torch, None)",
    "a lambda that patches": "import torch\n(lambda m: setattr(m, 'equal', None))(torch)",
    "setattr": "from torch import nn\nsetattr(nn.Module, 'x', 1)",
    "a dictionary of a module": "import torch\nvars(torch)['equal'] = None",
    "__dict__": "import torch\ntorch.__dict__.update(equal=None)",
    "object.__setattr__": "import torch\nobject.__setattr__(torch, 'equal', None)",
    "a computed name": "import torch\ngetattr(torch.optim, 'Ad' + 'am')",
    "names of a library": "from torch import optim\noptim.__dict__['Ad' + 'am']",
    "a map of optimizers": "from torch.distributed.optim.utils import functional_optim_map",
    "a deletion": "import torch\ndel torch.equal",
    "a with statement": "import torch\nwith open('x') as torch.equal: pass",
    "globals of a function": "f.__globals__['x'] = 1",
    "code of a function": "f.__code__ = g.__code__",
    "a closure": "f.__closure__[0].cell_contents",
    "subclasses": "object.__subclasses__()",
    "a name in pieces": "import sys\ngetattr(sys, '_get' + 'frame')",
    "a name in a text": "import re\nx = '__glo' 'bals__'",
    "half a name": "x = '__glo'",
    "a name in a format": "'{0.__class__.__init__.__globals__}'.format(f)",
    "a text that runs": "exec('x = 1')",
    "compiled text": "eval(compile('1', 'x', 'eval'))",
    "all globals": "globals()['x'] = 1",
    "a module's own getattr": "def __getattr__(name): return 1",
    "a metaclass by which classes are equal": "class M(type):\n    def __eq__(cls, other): return True",
    "a metaclass that is changed": "class M(type): pass\nM.__eq__ = f",
    "a metaclass on another": "class M(type): pass\nclass N(M):\n    __hash__ = f",
    "a metaclass of abc's": "import abc\nclass M(abc.ABCMeta):\n    def __instancecheck__(cls, x): return True",
    "a computed class": "A = type('A', bases, {})",
    "a class with computed names": "A = type('A', (), {'_' + '_eq_' + '_': f})",
    "the base's own attributes of others": "object.__getattribute__(self, name)",
    "the walk through a traceback": "import traceback\ntraceback.walk_tb(t)",
    "a traceback with its frames": "from traceback import TracebackException",
    "a timer beside": "import threading\nthreading.Timer(1, f).start()",
    "a module kept under its own name": "import torch\ntorch = [torch]\ntorch.copy()[0].equal = None",
    "another metaclass": "class A(B, metaclass=M): pass",
    "unittest": "from unittest.mock import patch",
    "dispatch": "from torch.overrides import TorchFunctionMode",
    "private parts of torch": "import torch\ntorch._C._nn.gelu",
    "graphs": "from torch.fx import symbolic_trace",
    "an operator of one's own": "import torch\ntorch.library.define('a::b', '')",
    "a process": "import os\nos.fork()",
    "a process of torch": "import torch.multiprocessing as mp",
    "the process's files": "text = open('/proc/self/mem')",
    "pickle": "import pickle",
    "the grader": "import grader",
    "another library": "import einops",
    "sys within a module": "import os\nf = os.sys._getframe(1)",
    "sys from a module": "from os import sys as s\ns.modules",
    "sys under another name": "import random\nrandom._os.sys.modules",
    "modules by vars": "import sys\nm = vars(sys)['modules']",
    "all of sys": "from sys import *\nmodules['probe']",
    "builtins within a library": "import torch\ntorch.builtins.isinstance = print",
    "a pattern's attribute": "def f(e):\n    match e:\n        case object(tb_frame=x): return x",
    "a pattern's dunder": "def f(e):\n    match e:\n        case object(__globals__=x): return x",
    "a pattern's places": "class A:\n    __match_args__ = ('f_back',)",
    "a name as a text": "def f(e): return getattr(e, 'tb_frame')",
    "attrgetter": "from operator import attrgetter\ng = attrgetter('tb_frame')",
    "attrgetter of a library": "import torch\ntorch.operator.attrgetter(n)(f)",
    "a format": "t = '{0.f_' + 'back}'\nt.format(f)",
    "a format in place": "('{0.f_' + 'back}').format(f)",
    "formatter": "import string\nstring.Formatter().get_field('0.x', (f,), {})",
    "update_wrapper": "import functools, torch\nfunctools.update_wrapper(torch, f)",
    "wraps as a function": "import functools, torch\nfunctools.wraps(f)(torch)",
    "wraps of others": "import functools\nfunctools.wraps(f, assigned=names)",
    "a parser": "import argparse, torch\nargparse.ArgumentParser().parse_args(a, namespace=torch)",
    "a doctest": "import doctest\ndoctest.run_docstring_examples(f, {})",
    "doctest of a module": "import doctest\ndoctest.testmod(m)",
    "timeit": "import timeit\ntimeit.timeit('x()', number=1)",
    "a timer of torch": "from torch.utils.benchmark import Timer\nTimer('x()')",
    "logging's configuration": "import logging.config\nlogging.config.dictConfig(d)",
    "a pickle": "import torch\ntorch.load(f, weights_only=False)",
    "a pickle by a dict": "import torch\ntorch.load(f, **{'weights_only': False})",
    "a pickle of numpy": "import numpy as np\nnp.load(f, allow_pickle=True)",
    "what a pickle may call": "import torch\ntorch.serialization.add_safe_globals([getattr])",
    "numpy runs a text": "import numpy as np\nnp.testing.runstring('x', {})",
    "a key of a tree": "import torch\ntorch.utils._pytree.GetAttrKey('x').get(f)",
    "an annotation": "@f.register\ndef _(x: 'os.sys._getframe()'): pass",
    "a class of a list": "import torch\n[torch.Tensor].pop().__eq__ = None",
    "a class of a call": "import torch\nmax([torch.Tensor], key=id).__eq__ = None",
    "a class that comes next": "import torch\nnext(iter((torch.Tensor,))).__eq__ = None",
    "a class that a function gives": "def k(x): return type(x)\nk(model).forward = None",
    "a class by a lambda": "(lambda: type(m))().forward = None",
    "another name of type": "kind = type\nkind(model).forward = None",
    "a module that is kept": "import torch\nclass A: pass\na = A()\na.m = torch\na.m.equal = None",
    "a module in a class": "import torch\nclass A:\n    m = torch\nA.m.equal = None",
    "a module in a list": "import torch\na = []\na.append(torch)\na[0].equal = None",
    "a module in a dict": "import torch\nd = {}\nd['m'] = torch\nd['m'].equal = None",
    "a default": "import torch\ndef f(m=torch): m.equal = None",
    "a comprehension": "import torch\nnext(m for m in (torch,)).equal = None",
    "a module handed on": "import torch, functools\nfunctools.partial(setattr, torch)('equal', None)",
    "a copy": "import torch\nclass A:\n    def __reduce__(self): return dict.get, ({0: torch}, 0), state",
    "types by a module": "import enum\nenum.types.FunctionType",
    "type.__setattr__": "type.__setattr__(k, 'forward', None)",
    "__loader__ assigned": "class A:\n    __getattribute__ = f",
    "a text that names it": "run('sys._getframe(1)')",
    "a star of os": "from os import *",
    "attrgetter of another module": "from statistics import attrgetter",
    "a tensor of one's own class": "from torch import Tensor as T\nclass A(T):\n    def is_leaf(self): pass",
    "a new class": "import types\nA = types.new_class('A', (kind,))",
    "bases in a call": "import dataclasses\ndataclasses.make_dataclass('A', [], bases=(kind,))",
    "a dataclass of others": "import dataclasses\ndataclasses.dataclass(type(model))",
    "another dataclass of others": "from dataclasses import dataclass as d\nd(eq=True)(kind)",
    "an order of others": "import functools\nfunctools.total_ordering(kind)",
    "a stack of logging's": "import logging\nlogging.traceback.walk_stack(None)",
    "lines of a file": "import warnings\nwarnings.linecache.getlines('x')",
    "texts that typing runs": "import typing\ntyping._eval_type(x, y, z)",
    "a loader of storages": "import torch\ntorch.serialization.register_package(0, f, g)",
    "a dict comprehension": "import torch\nd = {k: torch for k in 'a'}\nd['a'].equal = None",
    "a field": "import torch\nclass A:\n    m: object = torch\nA().m.equal = None",
    "a captured pattern": "import torch\nmatch [torch]:\n    case [m]: m.equal = None",
    "a default of a lambda": "import torch\nf = lambda m=torch: setattr(m, 'equal', None)",
    "any arguments": "import torch\ndef f(*ms): ms[0].equal = None\nf(torch)",
    "any names": "import torch\ndef f(**ms): ms['m'].equal = None\nf(m=torch)",
    "a module in a sum": "import torch\n(([torch] * 1)[0]).equal = None",
    "a module from an iterator": "import torch\n[torch].__iter__().__next__().equal = None",
    "a module in vars": "import torch\nclass A: m = torch\nvars(A)['m'].equal = None",
    "a module in a field": "import torch\nclass A:\n    m: object\nA(torch).m.equal = None",
    "a module in an object": """
        import random
        class A:
            def __init__(self, module): self.kept = module
        A(random).kept.random = f
        """,
    "a module by an attribute's name": "import torch\nclass A: m = torch\ngetattr(A, 'm').equal = None",
    "any names of a dict": "import torch\ndef f(m): m.equal = None\nf(**{'m': torch})",
    "a module in a zip": "import torch\nfor (m,) in zip([torch]): m.equal = None",
    "locals of a module": "locals()['torch'].equal = None",
    "locals of a function": "import torch\ndef f():\n    m = torch\n    locals()['m'].equal = None",
    "a module under another": "from torch.nn import functional as F\nput(F.torch)",
    "warnings under another module": "from torch.nn import functional as F\nF.warnings.showwarning = f",
    "the module of warnings": "import warnings\nm = warnings.catch_warnings()._module",
    "the state of a module": "names = m.__getstate__()",
    "a copier": "import copy\ncopy._deepcopy_dispatch[dict] = f",
    "copyreg": "import copyreg",
    "copyreg within copy": "import copy\ncopy.copyreg.dispatch_table[A] = f",
    "a class by a copy": "from copy import copy\ncopy(type(m)).forward = None",
    "a class by its name": "getattr(m, '__class__').forward = None",
    "another class by its name": "setattr(m, '__class__', Fake)",
    "another class by object": "object.__setattr__(m, '_' + '_class_' + '_', Fake)",
    "names of a builtin class": "vars(object)['_' + '_getattribute_' + '_']",
    "names of a class": "type(f).__dict__['_' + '_globals_' + '_']",
    "another name of object": "o = object\nfor name, value in o.__dict__.items(): f(value)",
    "names of the last base": "A.mro()[-1].__dict__['_' + '_getattribute_' + '_']",
    "a name in pieces in __dict__": "k = '_' + '_getattribute_' + '_'\nkind.__dict__[k]",
    "sys by its name": "getattr(m, 'sys')",
    "a factory of records": "import logging\nlogging.setLogRecordFactory(f)",
    "an abstract class": "from collections.abc import Sized\nSized.register(A)",
    "a hook of subclasses": "class A:\n    @classmethod\n    def __subclasshook__(cls, other): return True",
    "how threads take turns": "import sys\nsys.setswitchinterval(1e-6)",
    "a context": "import contextvars",
    "bases of a class": "for kind in type(model).mro(): kind.forward = None",
}
HONEST = [
    "self.tb_writer = w; self.co_efficient = 1; x.gi_joe, y.cr_rate, z.ag_news",
    "class A:\n    def __copy__(self): return A()\n    def __deepcopy__(self, memo): return A()",
    "class A:\n    def __init_subclass__(cls, **k): super().__init_subclass__(**k)",
    "class A:\n    def __getattribute__(self, n): return super().__getattribute__(n)",
    "class A:\n    def __get__(self, o, k=None): return 1\n    def __set__(self, o, v): pass",
    "import abc\nclass A(metaclass=abc.ABCMeta): pass",
    "from enum import EnumMeta\nclass B(metaclass=EnumMeta): pass",
    "from typing import TypedDict\nclass A(TypedDict, total=False): x: int",
    "class M(type):\n    def __call__(cls, *a): return super(M, cls).__call__(*a)\nclass A(metaclass=M): pass",
    "A = type('A', (B, nn.Module), {'x': 1, 'forward': f})",
    "import threading\nlock = threading.Lock()\nwith lock: pass",
    "import traceback\ntry: f()\nexcept ValueError: traceback.print_exc(); t = traceback.format_exc()",
    "if x:\n    import unittest\n    class T(unittest.TestCase): x = 1\n    unittest.main()",
    "names = [chr(ord('a') + i) for i in range(26)]",
    "import numpy as np\nf(np.copy(a), np.sort(b), list(np.copy(c)))",
    "import inspect, sys; inspect.getdoc(f); sys.setrecursionlimit(2000)",
    "import operator; y = operator.mul(2, 3)",
    "import logging, json, argparse, string, sys; logging.info(sys.argv)",
    "import re; words = re.compile('a+')",
    "for m in model.modules(): m.load(torch.load(f))",
    "x = getattr(self, name); setattr(self, name, vars(self)['y'])",
    "class A: __slots__ = ('b',)",
    "import torch; torch._foreach_add_(a, b); x._version; self._x",
    "if mode == 'eval': model.eval()",
    "import gc, inspect; gc.collect(); inspect.signature(f)",
    "import torch.nn as nn; fill = getattr(nn.init, f'{scheme}_')",
    "import torch; torch.backends.cudnn.benchmark = False; torch.manual_seed(0)",
    "import math\nbest = math.inf\nbest.x = 1",
    "class A(B):\n    def __init__(self): super().__init__(); self.x = type(self).__name__",
    "raise NotImplementedError('A.__init__: keep the arguments')",
    "from typing import *",
    "from torch.nn import *",
    "import torch; torch.load(f, weights_only=True); torch.load(f, **{'weights_only': True})",
    "import operator; best = max(rows, key=operator.attrgetter('count')); operator.attrgetter(name)(x)",
    "import functools\ndef f(g):\n    @functools.wraps(g)\n    def h(*a): return g(*a)\n    return h",
    "import copy; y = copy.copy(x); y.value = 1; copy.deepcopy(y).value = 2",
    "from torch import nn\nlayers = {'a': nn.ReLU}\nlayer = layers.get('a')(); layer.inplace = True",
    "import time, random; time.time(); random.random(); import torch; torch.random.fork_rng()",
    "TOLD = 'it is {}'\nprint(TOLD.format(1), 'a {}'.format(2))",
    "def f(x: 'Tensor | None' = None) -> 'dict[str, int]': pass",
    "import doctest\nif __name__ == '__main__': doctest.testmod()",
    "def f(x):\n    match x:\n        case Point(x=0): return 1",
    "if __name__ == '__main__': print(__doc__)",
    "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass A: x: int = 0\ny = A(1)",
    "def f(*xs, **options): return [x + 1 for x in xs]\nf(1, 2, key=3)",
    "def f(model): model.weight = None; model.weight.grad = None; del model.bias",
    "from torch.utils.hooks import RemovableHandle\nhandles: list[RemovableHandle] = []",
    "from torch import nn; isinstance(x, (nn.modules.batchnorm._BatchNorm, nn.modules.conv._ConvNd))",
    "from torch.optim.lr_scheduler import _LRScheduler\ndef f(scheduler: _LRScheduler): pass",
    "for module in model.modules():\n    for child in module._modules.values(): child.eval()",
    "import types; model.forward = types.MethodType(f, model); setattr(model, 'training', False)",
    "class A:\n    def __init__(self, kind): self.kind = kind\na = A(nn.ReLU)\na.kind = nn.Tanh",
    "from torch import nn\nfor layer, kind in zip(layers, [nn.ReLU, nn.Tanh]): layer.bias = kind",
    "names = {k: v for k, v in vars(module).items() if k[0] != '_'}; module.__dict__[key]",
    "object.__setattr__(self, 'x', 1); object.__setattr__(self, name, 1); super().__setattr__(k, v)",
    "def f():\n    a = 1\n    return {k: v for k, v in locals().items()}",
    "from functools import singledispatch\n@singledispatch\ndef f(x): pass\nf.register(int, g)",
    "import os; os.environ['A'] = '1'; os.environ.setdefault('B', '2'); os.path.join('a', 'b')",
    "def f(x): return x.__class__.__name__, x.numpy(), isinstance(x, type(y)), vars(options)",
    "import warnings\nwith warnings.catch_warnings(): warnings.simplefilter('ignore')",
    "from copy import deepcopy\nmodel = deepcopy(given)\nmodel.weight = None",
    "import torch\ny = type(x)(3)\ny.kind = 1; z = x + torch.ones(3); z.requires_grad = True",
]


@pytest.mark.parametrize("way", WAYS)
def test_a_way_into_what_runs_beside_is_odd(way: str) -> None:
    lines = WAYS[way].strip("\n").split("\n")
    indent = len(lines[0]) - len(lines[0].lstrip())
    source = "\n".join(line[indent:] for line in lines).strip()
    ast.parse(source)
    assert odd_code(source.encode()) != ()


@pytest.mark.parametrize("source", HONEST)
def test_what_honest_people_write_is_not(source: str) -> None:
    # As where nothing is forbidden that a computed name could reach.
    assert odd_code(source.encode(), {"getattr"}) == ()


def test_no_right_answer_of_the_course_is_held() -> None:
    reasons = {}
    for exercise in COURSE.exercises:
        stub = COURSE.stub(exercise).source
        ordinary = ordinary_in(exercise, stub)
        for path in [COURSE.solution(exercise), *COURSE.rights(exercise)]:
            if found := held(path.read_bytes(), ordinary):
                reasons[path.name] = found
    assert reasons == {}


def test_what_a_course_calls_ordinary_is_not_odd_and_what_begins_alike_is() -> None:
    source = b"import torch.fx\nimport torch\ntorch._dynamo.reset(), torch._dynamo2\n"
    assert odd_names(source) == {"torch.fx", "torch._dynamo", "torch._dynamo2"}
    assert [oddity.name for oddity in odd_code(source, {"torch._dynamo", "torch.fx"})] == [
        "torch._dynamo2"
    ]


@pytest.mark.parametrize(
    "source",
    [
        "import torch.profiler\ntorch.profiler.profile = Fake",
        "from torch import profiler\nprofiler.torch.rand = f",
        "import torch.profiler\ntorch.profiler.load_object('sys.modules')",
        "from torch.profiler import load_object",
    ],
)
def test_what_a_course_calls_ordinary_is_not_to_be_changed_or_gone_through(source: str) -> None:
    assert odd_code(source.encode(), {"torch.profiler"}) != ()


def test_a_line_is_told_with_how_many_more_there_are() -> None:
    (oddity,) = odd_code(b"import math\nimport ctypes\n\nfrom ctypes import cast\n")
    assert (oddity.name, oddity.line, oddity.times) == ("ctypes", 2, 2)
    assert oddity.what == "imports ctypes, which reaches into the process's memory"


@pytest.mark.parametrize(
    "source",
    [
        b"x" + b"[0]" * 3000 + b" = 1\n",
        b"import torch\nx = torch" + b".a" * 5000 + b"\n",
        b"import torch\n" + b"".join(b"a%d = torch.b%d\n" % (n, n) for n in range(3000)),
        b"import torch\na0 = torch\n"
        + b"".join(b"a%d = a%d.b\n" % (n + 1, n) for n in range(3000)),
        b"def f(x): x.y = 1\n" + b"f(f)\n" * 5000,
        b"x = " + b"(" * 150 + b"1" + b",)" * 150 + b"\n",
    ],
    ids=["subscripts", "attributes", "names", "aliases", "calls", "tuples"],
)
def test_a_file_made_to_be_slow_is_looked_through(source: bytes) -> None:
    assert len(odd_code(source)) <= 1
