"""Each known way out of a student's code is reported before it takes effect, unless a library uses it."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable

import pytest

from grader.judge.reports import reasons
from grader.sandbox.wire.messages import UNCLEAR, Report

JudgeSource = Callable[..., object]

SUITE = '''
def test_first(student):
    """The first part"""
    assert_equal(student.function("first")(3), 4)
'''
PROBED = '''
def test_told(student):
    """What the probe says"""
    assert_equal(student.run("told"), "as it is")
'''
PROBE = """
WORD = "as it is"
def word(): return WORD
def told(module):
    module.first(3)
    return word()
"""
RIGHT = "def first(x):\n    return x + 1\n"

TRACE = """
class Within:
    def __enter__(self): return self
    def __exit__(self, kind, error, trace):
        self.trace = trace
        return True
within = Within()
with within:
    raise ValueError
trace = within.trace
"""
# Each way uses a name that is not in the file, so that reading the source does not find it.
WAYS = {
    "a library that reads attributes by their names": (
        TRACE + "import string\nstring.Formatter().get_field('0.tb_' + 'frame', (trace,), {})",
        "tb_frame by string.get_field",
    ),
    "getattr": (
        TRACE + "getattr(trace, 'tb_' + 'frame')",
        "(tb_frame)",
    ),
    "getattr of a function": (
        "import textwrap\ngetattr(textwrap.dedent, '__glo' + 'bals__')",
        "(__globals__)",
    ),
    "a pattern": (
        TRACE
        + """
import abc
from dataclasses import make_dataclass
class Pattern(make_dataclass("Fields", ["tb_" + "frame"]), abc.ABC): pass
Pattern.register(type(trace))
match trace:
    case Pattern(found): pass
""",
        "(tb_frame)",
    ),
    "code in C that a library calls": (
        TRACE
        + """
from _operator import attrgetter
found = []
list(map(found.append, map(attrgetter("tb_" + "frame"), [trace])))
""",
        "(tb_frame)",
    ),
    "what a function holds": (
        (
            "import string, textwrap\n"
            "string.Formatter().get_field('0.__glo' + 'bals__', (textwrap.dedent,), {})"
        ),
        "__globals__ by string.get_field",
    ),
    "all classes": (
        "import string\nstring.Formatter().get_field('0.__sub' + 'classes__', (object,), {})[0]()",
        "__subclasses__",
    ),
    "a generator's frame": (
        (
            "import string\ng = (x for x in [1])\n"
            "string.Formatter().get_field('0.gi_' + 'frame', (g,), {})"
        ),
        "gi_frame by string.get_field",
    ),
    "a text that a library runs": (
        "import timeit\ntimeit.timeit(''.join(['pri', 'nt()']), number=1)",
        "exec by timeit",
    ),
    "an annotation that a library evaluates": (
        """
import functools
def one(x): return x
def two(x): return x
two.__annotations__ = {"x": "".join(["pri", "nt()"])}
try: functools.singledispatch(one).register(two)
except TypeError: pass
""",
        "exec by typing",
    ),
    "code that calls what it is given": (
        """
import collections, functools, gc
found = []
collections.namedtuple("A", map(str, map(found.append, map(gc.get_referents, [input.func]))), rename=True)
""",
        "gc.get_referents by collections.__init__.namedtuple",
    ),
    "what an import asks": (
        """
import functools, gc, sys, types
class Finder: find_spec = functools.cache(gc.get_referents)
sys.modules["above"] = types.ModuleType("above")
sys.modules["above"].__path__ = ()
sys.meta_path.insert(0, Finder)
try: import above.below
except Exception: pass
""",
        "(gc.get_referents)",
    ),
    "code that says that it is ours": (
        """
import marshal
def own(): pass
own.__code__ = marshal.loads(marshal.dumps((lambda: 1).__code__))
""",
        "(marshal.loads)",
    ),
    "what is left over": (
        "import gc\ngc.set_debug(gc.DEBUG_SAVEALL)\ngc.set_debug(0)\n",
        "gc.set_debug",
    ),
    "frames that a compiler sees": (
        "import torch\ntorch._C._dynamo.eval_frame.set_eval_frame(None)\n",
        "torch.set_eval_frame",
    ),
    "a pickle that evaluates a text": (
        (
            "import io\nload = vars(__import__('pick' + 'le'))['lo' + 'ads']\n"
            """load(b"cbuiltins\\neval\\n(S'1 + 1'\\ntR.")"""
        ),
        "(exec",
    ),
    "all objects": (
        (
            "import string\n"
            "string.Formatter().get_field('0.get_' + 'objects', (__import__('g' + 'c'),), {})[0]()"
        ),
        "gc.get_objects",
    ),
    "a function of another one's code": (
        "import textwrap\ntextwrap.dedent.__code__ = (lambda text: text).__code__",
        "(__code__)",
    ),
}


def held(judgment: object) -> tuple[str, ...]:
    return judgment.result.held  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize("way", WAYS)
def test_a_way_out_is_reported(way: str, judged: JudgeSource) -> None:
    code, words = WAYS[way]
    found = held(judged(RIGHT + textwrap.dedent(code), SUITE))
    assert any(words in reason for reason in found), found


INNOCENT = {
    "errors as text": """
import traceback, logging, warnings
try: 1 / 0
except ZeroDivisionError as error:
    traceback.print_exc()
    text = traceback.format_exc()
    logging.getLogger("x").exception("no")
    logging.warning("so")
warnings.warn("but")
""",
    "classes that are made of texts": """
import collections, dataclasses, enum, typing
Point = collections.namedtuple("Point", ["x", "y"])
Point.__new__.__defaults__ = (0,)
class Row(typing.NamedTuple):
    x: "int | None" = None
@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    x: "list[int]" = dataclasses.field(default_factory=list)
class Color(enum.Enum):
    RED = enum.auto()
Cell(), Row(), Point(1), Color("RED" and 1)
""",
    "annotations": """
import functools, inspect, typing
T = typing.TypeVar("T")
@typing.runtime_checkable
class Sized(typing.Protocol):
    def size(self) -> int: ...
@typing.overload
def same(x: int) -> int: ...
@typing.overload
def same(x: str) -> str: ...
def same(x): return x
@functools.singledispatch
def show(x): return x
@show.register
def _(x: "int | float", y: "typing.Literal[1, -1, 'a(b)']" = 1) -> "None": return -x
typing.get_type_hints(_), inspect.signature(_, eval_str=True)
typing.get_type_hints(show), inspect.signature(same), isinstance(3, Sized), show(3)
inspect.getdoc(same), inspect.isgeneratorfunction(same)
""",
    "abstract classes": """
import abc, collections.abc
class Base(abc.ABC):
    @abc.abstractmethod
    def f(self): ...
class Own(Base):
    def f(self): return 1
[kind.__name__ for kind in Base.__subclasses__()]
isinstance(3, Base), issubclass(int, collections.abc.Sized), isinstance([], collections.abc.Sequence)
""",
    "its own functions": """
import functools
def counted(f):
    @functools.wraps(f)
    def inner(*arguments):
        return f(*arguments)
    return inner
@counted
def g(x, y=1): return x
held, names = g.__closure__, g.__globals__
g.__wrapped__.__defaults__ = (2,)
g(1)
""",
    "data": """
import ast, copy, json, pickle, re, statistics, timeit
timeit.timeit(lambda: 1, number=1), timeit.repeat(dict, number=1, repeat=1)
ast.literal_eval("[1, 2]"), copy.deepcopy({"a": [1]}), pickle.loads(pickle.dumps([1]))
re.compile(r"\\d+"), json.loads("{}"), statistics.mean([1, 2])
""",
}


@pytest.mark.parametrize("style", INNOCENT)
def test_uses_by_libraries_are_not_reported(style: str, judged: JudgeSource) -> None:
    assert held(judged(RIGHT + INNOCENT[style], SUITE)) == ()


FORBIDDEN = """
[[exercise.forbidden]]
inside = ["first"]
names = ["torch.optim.Adam"]
reason = "do it yourself"
"""
ADAM = "import torch\nPATH = torch.optim.__file__.replace('__init__', 'adam')\n"
READING = {
    "it is opened": "open(PATH).close()",
    "it is copied": "import shutil\nshutil.copy(PATH, 'mine.txt')",
    "its lines are got": "import linecache\nlinecache.getlines(PATH)",
    "it is imported once more": "import sys\ndel sys.modules['torch.optim.adam']\nimport torch.optim.adam",
}


@pytest.mark.parametrize("way", READING)
def test_reading_the_source_of_a_forbidden_function_is_reported(
    way: str, judged: JudgeSource
) -> None:
    found = held(judged(f"{RIGHT}{ADAM}{READING[way]}\n", SUITE, extra=FORBIDDEN))
    assert any("reads the source of a forbidden function" in reason for reason in found), found


def test_a_library_that_shows_a_line_of_it_is_not_reported(judged: JudgeSource) -> None:
    code = (
        "import logging, traceback\n"
        "try: torch.optim.Adam([], lr=-1)\n"
        "except ValueError as error:\n"
        "    traceback.print_exc()\n"
        "    logging.exception('no')\n"
        "open(torch.optim.__file__).close()\n"
    )
    assert held(judged(f"{RIGHT}{ADAM}{code}", SUITE, extra=FORBIDDEN)) == ()


def test_importing_a_written_file_counts_as_running_a_string(judged: JudgeSource) -> None:
    code = (
        "import pathlib, sys\n"
        "pathlib.Path('mine.py').write_text('x = 1')\n"
        "sys.path.insert(0, '.')\n"
        "import mine\n"
    )
    assert any("runs code from a string" in reason for reason in held(judged(RIGHT + code, SUITE)))


@pytest.mark.skipif(sys.platform == "win32", reason="sockets are not file descriptors on Windows")
@pytest.mark.parametrize(
    "way",
    ["os.dup2(os.open(os.devnull, os.O_WRONLY), 4)", "os.write(4, b'all is well')"],
)
def test_tampering_with_the_reports_is_reported(way: str, judged: JudgeSource) -> None:
    found = held(judged(f"{RIGHT}import os\n{way}\n", SUITE))
    assert found == ("the code kept the sandbox from reporting its actions",)


def test_an_action_that_cannot_be_reported_ends_the_sandbox(judged: JudgeSource) -> None:
    way = "import os, textwrap\nos.dup2(os.open(os.devnull, os.O_WRONLY), 4)\ntextwrap.dedent.__globals__\n"
    judgment = judged(f"{RIGHT}{way}", SUITE)
    assert "ended the whole process (exit code 71)" in judgment.result.message  # type: ignore[attr-defined]
    assert judgment.result.score == 0  # type: ignore[attr-defined]


def test_a_forged_reply_is_refused(judged: JudgeSource) -> None:
    """Code that finds the descriptor and knows the protocol does not know the key of the request."""
    forged = (
        "import os, struct\n"
        "reply = b'\\x82\\xa4type\\xa8returned\\xa5value\\x04'\n"
        "def first(x):\n"
        "    os.write(3, struct.pack('<IQI16x', len(reply), 0, 0) + reply)\n"
        "    os._exit(0)\n"
    )
    result = judged(forged, SUITE).result  # type: ignore[attr-defined]
    assert result.score == 0
    assert "a reply is not the sandbox's own" in result.tests[0].message


def test_a_thread_that_reads_a_request_cannot_answer_it(judged: JudgeSource) -> None:
    """A thread that takes a request from the worker lacks only the key."""
    forged = """
import os, struct, threading
reply = b'\\x82\\xa4type\\xa8returned\\xa5value\\x04'
def answer():
    request = os.read(3, 10**6)
    os.write(3, struct.pack('<IQI', len(reply), 0, 0) + request[16:32] + reply)
threading.Thread(target=answer, daemon=True).start()
def first(x):
    return 0
"""
    result = judged(forged, SUITE).result  # type: ignore[attr-defined]
    assert result.score == 0


# Code that looks for objects of the grader, in ways that are also reported. It returns 4 if it finds none.
EMPTY = {
    "frames": """
import sys
def first(x):
    frame, seen = sys._getframe(), []
    while frame is not None:
        seen.append(frame.f_globals["__name__"])
        frame = frame.f_back
    return 4 if set(seen) == {__name__} else seen
""",
    "a frame that is not walked to": """
import sys
def first(x):
    frame = sys._getframe(2)
    return 4 if not (frame.f_globals or frame.f_locals or frame.f_back) else list(frame.f_globals)
""",
    "what a function holds": """
def first(x):
    held = setattr.__globals__, setattr.__closure__, input.func.__globals__, input.func.__builtins__
    return 4 if not any(held) else repr(held)
""",
    "classes": """
def first(x):
    ours = [kind for kind in object.__subclasses__() if kind.__module__.startswith("grader")]
    return 4 if not ours else repr(ours)
""",
    "builtins and functions of libraries that are replaced": """
import builtins, functools
def first(x):
    called = []
    def instead(*given, **named):
        called.append(given)
        raise SystemExit
    functools.__dict__["partial"] = instead
    for name in ("getattr", "isinstance", "len", "type", "vars"):
        builtins.__dict__[name] = instead
    return 4 if not called else repr(called)
""",
}


@pytest.mark.parametrize("way", EMPTY)
def test_no_objects_of_the_grader_are_visible(way: str, judged: JudgeSource) -> None:
    (test,) = judged(EMPTY[way], SUITE).result.tests  # type: ignore[attr-defined]
    assert test.outcome.value == "passed", test.message


def test_a_probe_imports_modules_as_they_were_before(judged: JudgeSource) -> None:
    source = """
import sys
found = []
class Asked:
    def __getattr__(self, name):
        found.extend(module for key, module in sys.modules.items() if "probe" in key)
        raise AttributeError
sys.modules["json"] = Asked()
def first(x):
    return [vars(module) for module in found]
"""
    probe = """
import json
from json import dumps
def told(module):
    return "as it is" if not module.first(3) and dumps([1]) == json.dumps([1]) else "seen"
"""
    (test,) = judged(source, PROBED, probe).result.tests  # type: ignore[attr-defined]
    assert test.outcome.value == "passed", test.message


def test_a_library_first_imported_by_a_probe_is_not_reported(judged: JudgeSource) -> None:
    # Importing these libraries runs strings, for named tuples and enumerations.
    probe = "def told(module):\n    import sched, plistlib, ssl\n    return 'as it is'\n"
    assert held(judged(RIGHT, PROBED, probe)) == ()


def test_an_iterated_object_cannot_read_the_variables_of_a_probe(judged: JudgeSource) -> None:
    source = """
found = []
class Numbers:
    def __iter__(self):
        return map(found.append, iter(print.__self__.locals, 0))
def first(x):
    return Numbers()
"""
    probe = """
def told(module):
    for _ in zip(range(2), module.first(3)):
        pass
    return [list(names) for names in module.found]
"""
    suite = PROBED.replace('"as it is"', "[[], []]")
    judgment = judged(source, suite, probe)
    (test,) = judgment.result.tests  # type: ignore[attr-defined]
    assert test.outcome.value == "passed", test.message
    assert held(judgment) == ("reads a running function's frame as it runs (f_locals)",)


def test_changing_a_probe_that_was_found_has_no_effect(judged: JudgeSource) -> None:
    forged = (
        "import sys\n"
        "def first(x):\n"
        "    found = [m for name, m in list(sys.modules.items()) if 'probe' in name and hasattr(m, 'told')]\n"
        "    for module in found:\n"
        "        module.WORD = 'as I like it'\n"
        "        module.word = lambda: 'as I like it'\n"
        "    return x + 1\n"
    )
    judgment = judged(forged, PROBED, PROBE)
    assert judgment.result.tests[0].outcome.value == "passed"  # type: ignore[attr-defined]


def test_sys_modules_has_no_module_of_the_grader(judged: JudgeSource) -> None:
    source = "import sys\ndef first(x):\n    return 4 if not any('grader' in n for n in sys.modules) else 0\n"
    assert judged(source, SUITE).result.score > 0  # type: ignore[attr-defined]


def test_reasons_name_line_and_event_and_skip_ordinary_libraries() -> None:
    reports = [
        Report("tb_frame", 3, "torch/ao/quantization/utils.py:getattr_from_fqn"),
        Report("f_back", 3, ""),
        Report("f_back", 4, ""),
        Report("exec", 99, "numpy/testing/_private/utils.py:measure"),
        Report("invented", 1, ""),
        UNCLEAR,
    ]
    assert reasons(reports, 10) == (
        (
            "line 3 reads a running function's frame as it runs "
            "(tb_frame by torch.ao.quantization.utils.getattr_from_fqn) (and on 1 more line)"
        ),
        "runs code from a string as it runs (exec by numpy.testing._private.utils.measure)",
        "the code kept the sandbox from reporting its actions",
    )
    assert reasons(reports[:4], 10, {"torch.ao", "f_back", "numpy"}) == ()
