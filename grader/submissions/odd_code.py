"""Odd code: what attacks on a grader use and solutions rarely need.

Nothing here proves anything, and a way around each rule can be found: a person looks at what is found, and the
points are provisional until then. Rules name what is ordinary where the code of courses allows it (modules,
names with two underscores), and what is odd elsewhere.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import re
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from grader.course.manifest import Exercise
from grader.submissions.source import parse


class Oddity(NamedTuple):
    """Something odd: its `name` as a course allows it, a sentence, the first line, and how many there are."""

    name: str
    what: str
    line: int
    times: int = 1


# Modules whose parts are ordinary, except those in _ODD.
_ORDINARY_MODULES = re.compile(
    "__future__|abc|argparse|array|base64|bisect|calendar|cmath|collections|configparser|contextlib|copy|csv|dataclasses|"
    "datetime|decimal|difflib|doctest|enum|errno|fnmatch|fractions|functools|glob|graphlib|gzip|hashlib|heapq|html|io|"
    "itertools|json|keyword|locale|logging|math|matplotlib|numbers|numpy|operator|os|pathlib|platform|pprint|queue|random|"
    "re|secrets|shutil|stat|statistics|string|struct|sys|tempfile|textwrap|time|timeit|torch|tqdm|types|typing|"
    "typing_extensions|unicodedata|uuid|warnings|zlib"
)
# Modules of which only these parts are ordinary.
_ORDINARY_PARTS = {
    "doctest": {"testmod"},
    "gc": {"collect", "disable", "enable", "isenabled"},
    "inspect": {
        "Parameter",
        "Signature",
        "cleandoc",
        "getdoc",
        "isabstract",
        "isclass",
        "isfunction",
        "isgenerator",
        "isgeneratorfunction",
        "ismethod",
        "signature",
    },
    "sys": {
        "argv",
        "byteorder",
        "exit",
        "float_info",
        "getrecursionlimit",
        "getsizeof",
        "maxsize",
        "platform",
        "setrecursionlimit",
        "stderr",
        "stdout",
        "version",
        "version_info",
    },
    # A lock starts nothing; texts of an error hold no frame.
    "threading": {"Condition", "Event", "Lock", "RLock", "Semaphore"},
    "timeit": {"default_timer"},
    "traceback": {"format_exc", "format_exception", "format_exception_only", "print_exc"}
    | {"print_exception"},
    # What people leave at the end of a file.
    "unittest": {"TestCase", "main"},
}
_WHY = {
    "atexit": "runs code when the process ends",
    "builtins": "holds what every module uses",
    "ctypes": "reaches into the process's memory",
    "doctest": "runs texts",
    "gc": "reaches into the process's objects",
    "grader": "is the grader",
    "importlib": "changes what imports bring",
    "inspect": "reads other code's frames",
    "mmap": "maps memory",
    "multiprocessing": "starts processes",
    "pickle": "runs what a file says",
    "pytest": "is the judge's tool",
    "_pytest": "is the judge's tool",
    "requests": "opens connections",
    "signal": "handles signals",
    "socket": "opens connections",
    "subprocess": "starts programs",
    "threading": "runs beside what is judged",
    "timeit": "runs texts",
    "traceback": "walks through frames",
    "unittest": "puts things in the place of others",
    "urllib": "opens connections",
    "weakref": "is called when an object goes",
}
_UNUSUAL = "is rarely needed"
# What a library imports stands among its names, as `warnings.sys`: it is looked at as the module itself.
_WITHIN = (
    frozenset(_ORDINARY_PARTS)
    | (frozenset(_WHY) - {"multiprocessing", "signal"})
    | frozenset(
        ["functools", "linecache", "logging", "operator", "string", "thread", "traceback", "types"]
    )
)
# Modules that are ordinary, but no parts of other modules: under such a name one is easily changed.
_NESTED = re.compile(r"\w[\w.]*\.(contextlib|copyreg|np|os|torch|warnings)(?=\.|$)")
# Of other objects these attributes are looked at, too.
_REACHES = frozenset(
    [
        "_current_exceptions",
        "_current_frames",
        "_getframe",
        "_sys",
        "builtins",
        "currentframe",
        "exc_info",
        "get_objects",
        "get_referents",
        "get_referrers",
        "import_submodule",
        "importlib",
        "load_object",
        "meta_path",
        "path_hooks",
        "setprofile",
        "settrace",
        "sys",
    ]
)

# What gives a module by its name, in libraries that a course may call ordinary.
_LOADS = frozenset(["import_submodule", "load_object"])

# Dotted names that are odd, and all below them.
_ODD = re.compile(
    r"os\.(_exit|abort|dup2?|exec\w+|fork\w*|kill\w*|memfd_create|pidfd_open|pipe2?|popen|posix_spawn\w*|"
    r"setuid|spawn\w+|system|wait\w*)"
    r"|types\.(CellType|CodeType|FrameType|FunctionType|ModuleType|TracebackType|new_class)"
    r"|typing\.(ForwardRef|get_type_hints|_\w+)"
    r"|functools\.update_wrapper"
    r"|string\.Formatter"
    r"|numpy\.(ctypeslib|_\w+)"
    r"|numpy\.testing\.run\w+"
    r"|logging\.(config|currentframe|setLogRecordFactory|_\w+)"
    r"|(collections\.abc|numbers|typing)\.\w+\.register"
    r"|(collections|contextlib|copy|dataclasses|enum|functools|io|json|pathlib|re|shutil|statistics|tempfile|textwrap|"
    r"warnings)\._\w+"
    r"|torch\.(ao|fx|hub|library|multiprocessing|overrides|package|profiler)"
    r"|torch\.distributed\.optim"
    r"|torch\.autograd\.profiler"
    r"|torch\.serialization\.(\w*safe_globals|register_package)"
    r"|torch\.utils\.(_pytree\.\w*(Key|key)\w*|benchmark|cpp_extension|hooks(?!\.RemovableHandle\b))"
    r"|torch\.nn\.modules\.module\.register_module_\w+"
    # What libraries keep for themselves, but for base classes that programs ask about with isinstance.
    r"|torch(\.\w+)*?\._(?!_|foreach_|pytree|broadcast_coalesced|C\._set_grad|set_grad|calculate_fan_in|"
    r"(BatchNorm|ConvNd|InstanceNorm|LRScheduler|Loss|NormBase|WeightedLoss)\b)\w+"
)
_SWITCHES = ("torch.backends.",)
# Modules that are ordinary as the left side of a dot, and odd as an argument.
_LIBRARY_MODULES = frozenset(
    f"torch.{name}"
    for name in [
        "autograd",
        "cuda",
        "distributed",
        "func",
        "linalg",
        "nn",
        "nn.functional",
        "nn.init",
        "nn.modules",
        "nn.utils",
        "optim",
        "optim.lr_scheduler",
        "utils",
        "utils.data",
    ]
) | {"numpy.random", "torch"}
_SWITCHED_ON = ("weights_only", "allow_pickle")
# Of other parts of these, and of private ones, a star brings what they imported: `functools`, `sys`.
_ORDINARY_STARS = re.compile(
    r"torch(\.(nn(\.(functional|init))?|optim|utils\.data))?|numpy|math|typing"
)
# Of these many answers get a function by its name, as `getattr(nn.init, name)`; where an exercise forbids
# names, that is a way around the ban.
_PUBLIC_NAMES = re.compile(r"(torch|numpy|math)\b")
_NUMBERS = re.compile(r"(math|torch|numpy)\.(e|inf|nan|pi)")

_BUILTINS = frozenset(
    [
        "__build_class__",
        "__builtins__",
        "__import__",
        "__loader__",
        "__spec__",
        "breakpoint",
        "compile",
        "delattr",
        "eval",
        "exec",
        "globals",
    ]
)
# Not all that begins so: `tb_writer` and `co_efficient` are names of people.
_FRAMES = re.compile(
    r"(ag|cr|gi)_(await|code|frame|origin|running|suspended|yieldfrom)|tb_(frame|lasti|lineno|next)"
    r"|co_(argcount|cellvars|code|consts|exceptiontable|filename|firstlineno|flags|freevars|kwonlyargcount|lines|"
    r"linetable|lnotab|names?|nlocals|positions|posonlyargcount|qualname|stacksize|varnames)"
    r"|f_(back|builtins|code|globals|lasti|lineno|locals|trace\w*)"
)
# The same as texts, of which many begin so.
_FRAME_TEXTS = re.compile(
    r"\b((ag|cr|gi|tb|f)_(await|back|builtins|code|frame|globals|lasti|locals|next)|_getframe|getattribute|sys\.modules)\b"
)
_DUNDER = re.compile(r"__[a-z_]+__")
_ORDINARY_DUNDERS = re.compile(
    "__("
    "abs|add|all|and|annotations|array|author|bool|call|class|constants|contains|defaults|delitem|dict|div|doc|docformat|"
    "enter|eq|exit|file|float|floordiv|format|future|ge|getattr|getitem|getitems|getstate|gt|hash|iadd|imul|index|init|int|"
    "invert|isub|iter|itruediv|le|len|lt|main|matmul|missing|mod|module|mro|mul|name|ne|neg|new|next|or|pos|post_init|pow|"
    "qualname|radd|reduce|repr|reversed|rmatmul|rmul|round|rpow|rsub|rtruediv|setattr|setitem|setstate|slots|"
    "str|sub|truediv|version|xor"
    ")__"
)
# Methods that a class may define, and call of its base by `super()`; other uses of these names are odd.
_DEFINED = re.compile(
    "__(bytes|ceil|class_getitem|complex|copy|deepcopy|del(attr|ete)|dir|divmod|floor|fspath|get|getattribute|"
    "i(and|floordiv|lshift|matmul|mod|or|pow|rshift|xor)|init_subclass|length_hint|lshift|r(and|divmod|floordiv|lshift|"
    "mod|or|rshift|truediv|xor)|reduce_ex|rshift|set|set_name|sizeof|trunc|a(enter|exit|iter|next|wait))__"
)
_PIECE = re.compile(r"^__[a-z]|[a-z]__$|\.__")
# A docstring may speak of anything.
_LONGEST_TEXT = 200
_WORDS = ("_exit", "conftest", "/proc/", "results.json", "tests/hidden", "solutions/")

# Names of attributes that lead to a class, or around what is refused as the code runs; a plain attribute
# is as short, and its uses are found.
_BY_NAME = re.compile(
    r"__(base|bases|class|delattr|dict|func|get|getstate|mro|reduce|reduce_ex|set|setattr|wrapped)__"
)
_BUILTIN_CLASSES = frozenset(
    name for name, value in vars(builtins).items() if isinstance(value, type)
)

# A class that is reached through an instance, as in `type(model).forward = ...`.
_CLASS = "type()"
_MAPPING = ".__dict__"
_CHANGES = frozenset(
    ("update", "setdefault", "pop", "popitem", "clear", "__setitem__", "__delitem__")
)
# What gives back an object that stands in a container, or that it was given.
_HANDS_BACK = frozenset(
    [
        "copy",
        "deepcopy",
        "filter",
        "iter",
        "list",
        "map",
        "max",
        "min",
        "next",
        "reversed",
        "set",
        "sorted",
        "tuple",
    ]
)
_TAKES_OUT = frozenset(
    [
        "__add__",
        "__getitem__",
        "__iter__",
        "__next__",
        "copy",
        "get",
        "items",
        "mro",
        "pop",
        "popitem",
        "popleft",
        "setdefault",
        "values",
    ]
)
# What gives back what it was given together with something else: here only modules are followed, since
# in `zip(layers, kinds)` a layer is no kind.
_MIXES = frozenset(["enumerate", "reduce", "sum", "zip"])
# What a metaclass may define: `__eq__` and the like would let a class of one's own pass for another.
_METACLASS = frozenset(["__call__", "__init__", "__new__", "__prepare__"])
_METACLASSES = frozenset(["abc.ABCMeta", "enum.EnumMeta", "enum.EnumType"])
# Decorators that write into the class that they are given.
_FILLS_CLASSES = frozenset(["dataclasses.dataclass", "functools.total_ordering"])
_LONGEST_NAME = 200
_MOST_ROUNDS = 4
_MOST_MEANINGS = 8


def odd_code(source: bytes, ordinary: Collection[str] = ()) -> tuple[Oddity, ...]:
    """What is odd in a file, in its order; names in `ordinary`, and those below them, are not.

    A file that cannot be parsed has nothing odd: it is not judged either.
    """
    try:
        findings = sorted(_Reader(parse(source)).findings(), key=lambda finding: finding[2])
    except SyntaxError:
        return ()
    except RecursionError:
        return (Oddity("nested", "or another one is nested too deeply to be looked at", 1),)
    oddities: dict[str, Oddity] = {}
    for name, what, line in findings:
        if any(f"{name}.".startswith(f"{allowed}.") for allowed in ordinary):
            continue
        first = oddities.get(what)
        times = 1 if first is None else first.times + 1
        oddities[what] = Oddity(name, what, line if first is None else first.line, times)
    return tuple(oddities.values())


def odd_names(source: bytes) -> frozenset[str]:
    """The names of what is odd in a file, as `ordinary` takes them."""
    return frozenset(oddity.name for oddity in odd_code(source))


def ordinary_in(exercise: Exercise, stub: bytes) -> frozenset[str]:
    """What is not odd in an answer: what the stub holds, and what the course names.

    Where nothing is forbidden, functions of a library may be looked up by computed names.
    """
    names = odd_names(stub) | frozenset(exercise.ordinary)
    return names if any(rule.names for rule in exercise.forbidden) else names | {"getattr"}


_Finding = tuple[str, str, int]


class _Reader:
    """One look through a syntax tree, in which names are normalized."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._nodes = list(ast.walk(tree))
        for text in _annotations(self._nodes):
            self._nodes += ast.walk(text)
        self._docstrings = {
            id(node.body[0].value)
            for node in self._nodes
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and node.body
            and isinstance(node.body[0], ast.Expr)
        }
        # Attributes and subscripts within a longer chain, which is looked at as a whole.
        self._inner = {id(node.value) for node in self._nodes if isinstance(node, ast.Attribute)}
        self._functions = {
            node.name: node for node in self._nodes if isinstance(node, ast.FunctionDef)
        }
        self._classes = {node.name: node for node in self._nodes if isinstance(node, ast.ClassDef)}
        # Keys of a dict that say that a file may run nothing.
        self._safe = {
            id(key)
            for node in self._nodes
            if isinstance(node, ast.Dict)
            for key, value in zip(node.keys, node.values, strict=True)
            if isinstance(key, ast.Constant) and _is_safe(str(key.value), value)
        }
        # What each function returns, by its node; that of a function inside of it is its own, too.
        self._results: dict[int, list[ast.expr]] = {
            id(function): [
                node.value
                for node in ast.walk(function)
                if isinstance(node, ast.Return) and node.value is not None
            ]
            for function in self._functions.values()
        }
        self._modules = _LIBRARY_MODULES | {
            alias.name if alias.asname else alias.name.partition(".")[0]
            for node in self._nodes
            if isinstance(node, ast.Import)
            for alias in node.names
        }
        self._only_modules = self._names_of_modules()
        self._values: dict[str, list[ast.expr]] = {}
        self._meanings: dict[str, set[str]] = {}
        self._learned = False
        # What catches warnings keeps the module, from which all that is loaded can be reached.
        self._catches = any(
            "catch_warnings" in (getattr(node, "attr", ""), getattr(node, "name", ""))
            for node in self._nodes
            if isinstance(node, ast.Attribute | ast.alias)
        )
        self._bind()

    # --- the meanings of names ---------------------------------------------------------------------

    def _names_of_modules(self) -> set[str]:
        """The names that `import` binds, and nothing else in the file."""
        imported = {
            alias.asname or alias.name.partition(".")[0]
            for node in self._nodes
            if isinstance(node, ast.Import)
            for alias in node.names
        }
        others: set[str] = set()
        for node in self._nodes:
            match node:
                case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
                    others.add(name)
                case (
                    ast.FunctionDef(name=name)
                    | ast.AsyncFunctionDef(name=name)
                    | ast.ClassDef(name=name)
                    | ast.MatchAs(name=str(name))
                    | ast.MatchStar(name=str(name))
                ):
                    others.add(name)
                case ast.ImportFrom(names=aliases):
                    others.update(alias.asname or alias.name for alias in aliases)
        return imported - others

    def _bind(self) -> None:
        """Find the dotted names of imports that each name may mean, in any function."""
        for node in self._nodes:
            match node:
                case ast.Import(names=aliases):
                    for alias in aliases:
                        top = alias.name.partition(".")[0]
                        self._add(alias.asname or top, {alias.name if alias.asname else top})
                case ast.ImportFrom(module=str(module), names=aliases):
                    for alias in aliases:
                        self._add(alias.asname or alias.name, {f"{module}.{alias.name}"})
        # What one assignment binds, an earlier line may use: a function is called further below.
        for _ in range(_MOST_ROUNDS):
            self._learned = False
            for node in self._nodes:
                self._bind_by(node)
            if not self._learned:
                return

    def _add(self, name: str, meanings: set[str]) -> None:
        known = self._meanings.setdefault(name, set())
        # A name with more meanings than these is recognized by one of them.
        if len(known) < _MOST_MEANINGS and not meanings <= known:
            known |= meanings
            self._learned = True

    def _bind_by(self, node: ast.AST) -> None:
        """Bind the names that a node assigns."""
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._assign(target, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assign(target, value)
            case ast.NamedExpr(target=target, value=value):
                self._assign(target, value)
            case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
                self._assign_all(target, self._paths(value))
            case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
                self._assign_all(target, self._paths(value))
            case ast.FunctionDef(name=name, args=parameters):
                self._bind_defaults(parameters)
                returned = self._results.get(id(node), [])
                self._add(f"{name}()", set().union(*map(self._paths, returned)))
            case ast.Lambda(args=parameters):
                self._bind_defaults(parameters)
            case ast.Match(subject=subject, cases=cases):
                for part in (part for case in cases for part in ast.walk(case.pattern)):
                    if isinstance(part, ast.MatchAs | ast.MatchStar) and part.name:
                        self._add(part.name, self._paths(subject))
            case ast.ClassDef(body=body):
                for statement in body:
                    match statement:
                        case ast.Assign(targets=targets, value=value):
                            pass
                        case ast.AnnAssign(target=target, value=ast.expr() as value):
                            targets = [target]
                        case _:
                            continue
                    for target in targets:
                        if isinstance(target, ast.Name):
                            self._add(f".{target.id}", self._paths(value))
            case ast.Call(func=ast.Name(id=name)) if name in self._functions:
                self._bind_arguments(self._functions[name].args, node)
            case ast.Call(func=ast.Name(id=name)) if name in self._classes:
                self._bind_fields(self._classes[name], node)
            case ast.Call(func=ast.Lambda(args=arguments)):
                self._bind_arguments(arguments, node)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        match target, value:
            case (
                ast.Tuple(elts=targets) | ast.List(elts=targets),
                ast.Tuple(elts=values) | ast.List(elts=values),
            ) if len(targets) == len(values):
                for pair in zip(targets, values, strict=True):
                    self._assign(*pair)
            case ast.Attribute(attr=name), _:
                self._add(f".{name}", self._paths(value))
            case ast.Subscript(value=ast.Name(id=name)), _:
                self._add(name, self._paths(value))
            case _:
                self._assign_all(target, self._paths(value))
                if isinstance(target, ast.Name):
                    self._values.setdefault(target.id, []).append(value)

    def _assign_all(self, target: ast.expr, paths: set[str]) -> None:
        if paths:
            for node in ast.walk(target):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    self._add(node.id, paths)

    def _bind_defaults(self, parameters: ast.arguments) -> None:
        names = [parameter.arg for parameter in (*parameters.posonlyargs, *parameters.args)]
        for name, value in zip(names[::-1], parameters.defaults[::-1], strict=False):
            self._add(name, self._paths(value))
        for argument, default in zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True):
            self._add(argument.arg, self._paths(default))

    def _bind_fields(self, kind: ast.ClassDef, call: ast.Call) -> None:
        """Bind what makes an object: the parameters of `__init__`, or the fields of a class that has none."""
        fields = []
        for statement in kind.body:
            match statement:
                case ast.FunctionDef(name="__init__", args=parameters):
                    self._bind_arguments(parameters, call, bound=1)
                case ast.AnnAssign(target=ast.Name(id=name)):
                    fields.append(name)
        pairs = [*zip(fields, call.args, strict=False)]
        pairs += [(keyword.arg, keyword.value) for keyword in call.keywords if keyword.arg]
        for name, value in pairs:
            if name in fields:
                self._add(f".{name}", self._paths(value))

    def _bind_arguments(self, parameters: ast.arguments, call: ast.Call, bound: int = 0) -> None:
        """Bind the parameters, all but the first ones that are `bound`, to what a call gives."""
        names = [parameter.arg for parameter in (*parameters.posonlyargs, *parameters.args)]
        names = names[bound:]
        pairs = list(zip(names, call.args, strict=False))
        named = [(keyword.arg, keyword.value) for keyword in call.keywords if keyword.arg]
        pairs += named
        for keyword in call.keywords:
            if keyword.arg is None:
                pairs += [(name, keyword.value) for name in names]
        if parameters.vararg is not None:
            pairs += [(parameters.vararg.arg, value) for value in call.args[len(names) :]]
        if parameters.kwarg is not None:
            pairs += [(parameters.kwarg.arg, value) for _, value in named]
        for name, value in pairs:
            self._assign(ast.Name(name, ast.Store()), value)

    def _paths(self, node: ast.expr | None) -> set[str]:
        """The dotted names that an expression may mean; a container means its items."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        roots: set[str] = set()
        match node:
            case ast.Name(id="type"):
                roots = {_CLASS}
            case ast.Name(id="object"):
                roots = {"object"}
            case ast.Call(func=ast.Attribute(attr="mro")):
                roots = {_CLASS}
            case ast.Name(id=name):
                roots = self._meanings.get(name, set())
            case ast.Tuple(elts=values) | ast.List(elts=values) | ast.Set(elts=values):
                roots = set().union(*map(self._paths, values))
            case ast.Dict(values=values):
                roots = set().union(*map(self._paths, values))
            case ast.Subscript(value=ast.Call(func=ast.Name(id="locals" | "vars"), args=[])):
                roots = self._carried(set().union(*self._meanings.values()))
            case ast.Subscript(value=value):
                roots = self._paths(value)
            case ast.Starred(value=value) | ast.NamedExpr(value=value):
                roots = self._paths(value)
            case ast.IfExp(body=first, orelse=second):
                roots = self._paths(first) | self._paths(second)
            case ast.BoolOp(values=values):
                roots = set().union(*map(self._paths, values))
            case ast.Call(func=ast.Name(id="type"), args=[_]):
                roots = {_CLASS}
            case ast.Call(func=ast.Name(id="vars"), args=[value]):
                roots = {path + _MAPPING for path in self._paths(value)} or self._kept()
            case ast.Call(
                func=ast.Name(id="getattr"), args=[value, ast.Constant(value=str(name)), *_]
            ):
                roots = {f"{path}.{name}" for path in self._paths(value)}
                roots = roots or self._carried(self._meanings.get(f".{name}", set()))
            case ast.Call(func=ast.Name(id="getattr"), args=[value, *_]):
                roots = self._kept()
            case ast.BinOp(left=left, right=right):
                roots = self._carried(self._paths(left) | self._paths(right))
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=values) if (
                name in _MIXES
            ):
                roots = set().union(*map(self._paths, values)) & self._modules
            case ast.Call(func=ast.Name(id=name), args=values) if name in _HANDS_BACK:
                roots = set().union(*map(self._paths, values))
            case ast.Call(func=ast.Attribute(value=value, attr=name), args=values) if (
                name in _TAKES_OUT
            ):
                roots = self._paths(value)
                if "copy" in roots:
                    roots = set().union(*map(self._paths, values))
                elif isinstance(value, ast.Name) and value.id in self._only_modules:
                    # `np.copy(x)` is a function of the module, which it does not give back.
                    roots = set()
            case ast.Call(func=ast.Name() as function) if _CLASS in self._paths(function):
                roots = {_CLASS}
            case ast.Call(func=ast.Name(id=name)) if name in self._functions:
                roots = self._meanings.get(f"{name}()", set())
            case ast.Lambda(body=value) | ast.Call(func=ast.Lambda(body=value)):
                roots = self._paths(value)
            case ast.GeneratorExp(elt=value) | ast.ListComp(elt=value) | ast.SetComp(elt=value):
                roots = self._paths(value)
            case ast.DictComp(value=value):
                roots = self._paths(value)
        if not roots and parts:
            # An attribute that something was kept under, whatever object has it.
            roots = self._meanings.get(f".{parts[-1]}", set())
            if roots:
                parts.pop()
        if "__class__" in parts:
            roots, parts = {_CLASS}, parts[: parts.index("__class__")]
        paths = {".".join([root, *parts[::-1]])[:_LONGEST_NAME] for root in roots}
        return {path for path in paths if not _NUMBERS.match(path)}

    def _carried(self, paths: set[str]) -> set[str]:
        """The modules and classes of objects among these: what a change of changes all."""
        return {path for path in paths if path == _CLASS or path in self._modules}

    def _kept(self) -> set[str]:
        """What any attribute may be, of which the name is not known."""
        kept = (paths for name, paths in self._meanings.items() if name.startswith("."))
        return self._carried(set().union(*kept))

    # --- what is odd ------------------------------------------------------------------------------

    def findings(self) -> Iterator[_Finding]:
        for node in self._nodes:
            yield from self._of_import(node)
            yield from self._of_name(node)
            yield from self._of_write(node)
            yield from self._of_class(node)
            yield from self._of_call(node)
            yield from self._of_text(node)
        for statement in self._tree.body:
            if isinstance(statement, ast.FunctionDef) and statement.name == "__getattr__":
                yield "__getattr__", "defines __getattr__ of its module", statement.lineno
        for node in _outside_functions(self._tree):
            match node:
                case ast.Call(func=ast.Name(id="locals" | "vars" as name), args=[]):
                    yield "globals", f"uses {name} of the module", node.lineno

    def _of_import(self, node: ast.AST) -> Iterator[_Finding]:
        match node:
            case ast.Import(names=aliases):
                for alias in aliases:
                    yield from _odd_module(alias.name, node.lineno)
            case ast.ImportFrom(module=str(module), names=aliases):
                for alias in aliases:
                    yield from _odd_module(module, node.lineno, alias.name)
                    if alias.name in _LOADS:
                        yield alias.name, f"imports {alias.name}", node.lineno

    def _of_name(self, node: ast.AST) -> Iterator[_Finding]:
        match node:
            case ast.Name(id=name) if name in _BUILTINS or _is_odd_dunder(name):
                yield name, f"uses {name}", node.lineno
            case ast.MatchClass(kwd_attrs=names):
                for name in names:
                    if _is_odd_attribute(name):
                        yield name, f"uses {name}", node.lineno
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super"), args=[]), attr=name) if (
                _DEFINED.fullmatch(name)
            ):
                pass
            case ast.Attribute(attr=name):
                if _is_odd_attribute(name) or (name == "_module" and self._catches):
                    yield name, f"uses {name}", node.lineno
                if name == "__dict__" and self._is_class(node.value):
                    yield _CLASS + _MAPPING, "looks names up in a class", node.lineno
                if name == "__getstate__" and not _is_own(node.value):
                    yield name, "takes the state of something", node.lineno
                if id(node) not in self._inner:
                    for path in sorted(self._paths(node)):
                        yield from _odd_path(path, node.lineno)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                if _is_odd_dunder(name) and not _DEFINED.fullmatch(name):
                    yield name, f"defines {name}", node.lineno
            case ast.Subscript(value=ast.Attribute(value=owner, attr="__dict__"), slice=key) if (
                not _is_own(owner) and self._is_made_up(key)
            ):
                yield "__dict__", "looks up a name that is put together", node.lineno
            case ast.Call(func=ast.Name(id="vars"), args=[owner]) if self._is_class(owner):
                yield _CLASS + _MAPPING, "looks names up in a class", node.lineno
            case ast.Call(
                func=ast.Name(id="getattr" | "hasattr") as function, args=[owner, name, *_]
            ):
                if isinstance(name, ast.Constant):
                    text = str(name.value)
                    if function.id == "getattr" and (text in _REACHES or _BY_NAME.fullmatch(text)):
                        yield text, f"gets {text} by its name", node.lineno
                    for path in sorted(self._paths(node)):
                        yield from _odd_path(path, node.lineno)
                else:
                    for path in sorted(self._paths(owner)):
                        odd = "getattr" if _PUBLIC_NAMES.match(path) else path
                        yield odd, f"gets a computed name of {path}", node.lineno

    def _of_write(self, node: ast.AST) -> Iterator[_Finding]:
        match node:
            case ast.Attribute(ctx=ast.Store() | ast.Del(), value=owner, attr=name):
                if name == "__class__":
                    yield name, "changes the class of an object", node.lineno
                for path in sorted(self._paths(owner)):
                    yield from _odd_write(f"{path}.{name}", node.lineno)
            case ast.Subscript(ctx=ast.Store() | ast.Del(), value=owner):
                for path in sorted(self._paths(owner)):
                    if _MAPPING in f"{path}.":
                        yield from _odd_write(path, node.lineno)
            case ast.Call(
                func=ast.Name(id="setattr"), args=[_, ast.Constant(value=str(name)), *_]
            ) if _BY_NAME.fullmatch(name):
                yield name, f"sets {name} by its name", node.lineno
            case ast.Call(func=ast.Name(id="setattr" | "delattr"), args=[owner, *_]):
                for path in sorted(self._paths(owner)):
                    yield from _odd_write(path, node.lineno)
            case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in _CHANGES:
                for path in sorted(self._paths(owner)):
                    if path.endswith(_MAPPING):
                        yield from _odd_write(path, node.lineno)
            case ast.Call(
                func=ast.Attribute(attr="__setattr__" | "__delattr__" as name),
                args=[owner, attribute, *more],
            ):
                is_plain = isinstance(attribute, ast.Constant) and attribute.value != "__class__"
                if more and not is_plain and not _is_own(owner):
                    yield name, f"calls {name} with a computed name", node.lineno
                for path in sorted(self._paths(owner)):
                    yield from _odd_write(path, node.lineno)
            case ast.Attribute(
                value=ast.Name(id="type"), attr="__setattr__" | "__delattr__" as name
            ):
                yield f"type.{name}", "changes a class", node.lineno

    def _of_class(self, node: ast.AST) -> Iterator[_Finding]:
        match node:
            case ast.ClassDef(bases=bases, keywords=keywords):
                for keyword in keywords:
                    is_plain = keyword.arg is not None and (
                        keyword.arg != "metaclass" or self._is_metaclass(keyword.value)
                    )
                    if not is_plain:
                        yield "metaclass", "gives a class a metaclass", node.lineno
                if any(map(self._is_metaclass, bases)) and not self._is_plain(node):
                    yield "metaclass", "defines a metaclass", node.lineno
                for base in bases:
                    if not self._is_metaclass(base):
                        yield from self._of_base(base)
            # A class as any other, if its names are written out.
            case ast.Call(
                func=ast.Name(id="type"), args=[_, ast.Tuple(elts=bases), ast.Dict(keys=keys)]
            ) if all(isinstance(key, ast.Constant) for key in keys):
                for base in bases:
                    yield from self._of_base(base)
                for key in keys:
                    name = str(getattr(key, "value", ""))
                    if _is_odd_dunder(name) and not _DEFINED.fullmatch(name):
                        yield name, f"defines {name}", node.lineno
            case ast.Call(func=ast.Name(id="type"), args=[_, _, _, *_]):
                yield "type", "builds a class by type()", node.lineno

    def _of_base(self, base: ast.expr) -> Iterator[_Finding]:
        is_written_out = isinstance(base, ast.Name | ast.Attribute | ast.Subscript)
        if not is_written_out or _CLASS in self._paths(base):
            yield "type", "builds a class on a computed one", base.lineno
        elif "torch.Tensor" in self._paths(base):
            yield "torch.Tensor", "builds a class on torch.Tensor", base.lineno

    def _is_metaclass(self, node: ast.expr, depth: int = 0) -> bool:
        """Whether this is `type`, a metaclass of Python's own, or one that the file defines on these."""
        if isinstance(node, ast.Name) and node.id in self._classes and depth < _MOST_ROUNDS:
            bases = self._classes[node.id].bases
            return any(self._is_metaclass(base, depth + 1) for base in bases)
        if isinstance(node, ast.Name) and node.id == "type":
            return True
        return not self._paths(node).isdisjoint(_METACLASSES)

    def _is_plain(self, metaclass: ast.ClassDef) -> bool:
        """Whether a metaclass only says how objects are made, and is used only as one."""
        if not _METACLASS.issuperset(_dunders_in(metaclass.body)):
            return False
        as_metaclass: set[int] = set()
        for node in self._nodes:
            match node:
                case ast.keyword(arg="metaclass", value=used):
                    as_metaclass.add(id(used))
                case ast.Call(func=ast.Name(id="super"), args=[used, *_]):
                    as_metaclass.add(id(used))
        return all(
            id(node) in as_metaclass
            for node in self._nodes
            if isinstance(node, ast.Name) and node.id == metaclass.name
        )

    def _of_call(self, node: ast.AST) -> Iterator[_Finding]:
        if isinstance(node, ast.Return | ast.Yield) and node.value is not None:
            for path in sorted(self._paths(node.value) & self._modules):
                yield path, f"gives back the module {path}", node.lineno
        if not isinstance(node, ast.Call):
            return
        paths = self._paths(node.func)
        match node.func:
            case ast.Attribute(value=text, attr="format" | "format_map" as how):
                text = node.args[0] if paths == {"str"} and node.args else text
                if not paths and self._is_made_up(text):
                    yield how, "formats a text that is put together", node.lineno
        if "functools.wraps" in paths and (len(node.args) > 1 or node.keywords):
            yield "functools.wraps", "uses functools.wraps with other attributes", node.lineno
        if isinstance(node.func, ast.Call) and "functools.wraps" in self._paths(node.func.func):
            yield "functools.wraps", "calls functools.wraps as no decorator", node.lineno
        for path in sorted(paths & _FILLS_CLASSES):
            if node.args:
                yield path, f"calls {path} as no decorator", node.lineno
        if isinstance(node.func, ast.Call) and self._paths(node.func.func) & _FILLS_CLASSES:
            yield "dataclass", "calls a decorator of classes as no decorator", node.lineno
        if any(keyword.arg == "bases" for keyword in node.keywords):
            yield "bases", "builds a class on others by a call", node.lineno
        if "doctest.testmod" in paths and node.args:
            yield "doctest", "uses doctest of something else: doctest runs texts", node.lineno
        for keyword in node.keywords:
            name, value = keyword.arg or "", keyword.value
            if name in _SWITCHED_ON and not _is_safe(name, value):
                yield name, f"sets {name}, so that a file may run code", node.lineno
            if name == "namespace":
                yield name, "lets a parser set attributes of something", node.lineno
        own = isinstance(node.func, ast.Name) and node.func.id in {"getattr", "hasattr", "print"}
        is_bound = isinstance(node.func, ast.Lambda) or (
            isinstance(node.func, ast.Name) and node.func.id in self._functions
        )
        if not own and not is_bound:
            for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
                for path in sorted(self._paths(argument) & self._modules):
                    yield path, f"hands the module {path} to a function", node.lineno

    def _is_class(self, node: ast.expr) -> bool:
        """Whether this is a builtin class, or that of an object."""
        is_builtin = isinstance(node, ast.Name) and node.id in _BUILTIN_CLASSES
        return is_builtin or not self._paths(node).isdisjoint((_CLASS, "object"))

    def _is_made_up(self, text: ast.expr) -> bool:
        """Whether a text is put together of others, where it stands or where a variable gets it."""
        made_up = (ast.BinOp, ast.Call, ast.JoinedStr)
        values = self._values.get(text.id, ()) if isinstance(text, ast.Name) else (text,)
        return any(isinstance(value, made_up) for value in values)

    def _of_text(self, node: ast.AST) -> Iterator[_Finding]:
        match node:
            case ast.Constant(value=str(text)) if len(text) < _LONGEST_TEXT:
                if id(node) in self._docstrings:
                    return
                if text in _SWITCHED_ON and id(node) not in self._safe:
                    yield text, f"names {text!r}", node.lineno
                for match in _FRAME_TEXTS.finditer(text):
                    yield match.group(), f"names {match.group()!r}", node.lineno
                for word in _WORDS:
                    if word in text:
                        yield word, f"names {word!r}", node.lineno
                if _PIECE.search(_ORDINARY_DUNDERS.sub("", text)):
                    yield text, f"names {text!r}", node.lineno


def _dunders_in(body: Iterable[ast.stmt]) -> set[str]:
    """The names with two underscores that the body of a class may bind."""
    names: set[str] = set()
    for node in (node for statement in body for node in ast.walk(statement)):
        match node:
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
                | ast.Name(id=name, ctx=ast.Store())
                | ast.alias(name=name, asname=None)
                | ast.alias(asname=str(name))
            ):
                names.add(name)
    return {name for name in names if _DUNDER.fullmatch(name)}


def _outside_functions(tree: ast.Module) -> Iterator[ast.AST]:
    """The nodes that run when the module is loaded."""
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        yield node
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                left.append(child)


def _is_own(node: ast.expr) -> bool:
    """Whether this is `self`, the own class, or `super()`."""
    match node:
        case ast.Name(id="self" | "cls") | ast.Call(func=ast.Name(id="super")):
            return True
    return False


def _odd_module(module: str, line: int, part: str = "") -> Iterator[_Finding]:
    top = module.partition(".")[0]
    path = f"{module}.{part}" if part else module
    if not _ORDINARY_MODULES.fullmatch(top) and top not in _ORDINARY_PARTS:
        yield top, f"imports {top}, which {_WHY.get(top, _UNUSUAL)}", line
    elif part == "*":
        if not _ORDINARY_STARS.fullmatch(module):
            yield f"{module}.*", f"imports all of {module}", line
    else:
        yield from _odd_path(path, line)


def _odd_path(path: str, line: int) -> Iterator[_Finding]:
    if (inner := _module_within(path)) is not None:
        module, _, part = inner.partition(".")
        yield from _odd_module(module, line, part)
        if module == "operator":
            yield path, f"uses {path}", line
        return
    if (nested := _NESTED.match(path)) is not None:
        yield nested.group(1), f"reaches a module as {nested.group()}", line
    if _PUBLIC_NAMES.match(path) and f"{_MAPPING}." in f"{path}.":
        yield "getattr", f"looks names up in {path}", line
    top, _, rest = path.partition(".")
    # A sandbox gives its own ones to who asks the module operator.
    if path.endswith((".attrgetter", ".methodcaller")) and top != "operator":
        yield path, f"uses {path}", line
    part = rest.partition(".")[0]
    if top in _ORDINARY_PARTS and part and part not in _ORDINARY_PARTS[top]:
        yield (
            f"{top}.{part}",
            f"uses {top}.{part}" + (f": {top} {_WHY[top]}" if top in _WHY else ""),
            line,
        )
    elif (match := _ODD.match(path)) and path[match.end() :][:1] in ("", "."):
        yield match.group(), f"uses {match.group()}", line


def _module_within(path: str) -> str | None:
    """The dotted name from the last module within another on, `sys.exit` of `os.sys.exit`; None without one."""
    parts = path.split(".")
    for at in range(len(parts) - 1, 0, -1):
        name = parts[at].removeprefix("_")
        if name in _WITHIN and parts[0] not in (name, _CLASS):
            return ".".join([name, *parts[at + 1 :]])
    return None


def _annotations(nodes: Iterable[ast.AST]) -> Iterator[ast.Expression]:
    """The texts in annotations, which some libraries run, as code."""
    for node in nodes:
        match node:
            case (
                ast.arg(annotation=ast.expr() as annotation) | ast.AnnAssign(annotation=annotation)
            ):
                pass
            case ast.FunctionDef(returns=ast.expr() as annotation):
                pass
            case _:
                continue
        for text in ast.walk(annotation):
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                with contextlib.suppress(SyntaxError, ValueError):
                    yield ast.increment_lineno(
                        ast.parse(text.value.strip(), mode="eval"), text.lineno - 1
                    )


def _odd_write(path: str, line: int) -> Iterator[_Finding]:
    """What is written; a course that calls a library ordinary does not allow to change it."""
    if not path.startswith(_SWITCHES):
        yield f"change of {path}", f"puts something else in the place of {path}", line


def _is_safe(name: str, value: ast.expr) -> bool:
    """Whether a switch is set so that a file may run nothing."""
    return isinstance(value, ast.Constant) and value.value is (name == "weights_only")


def _is_odd_attribute(name: str) -> bool:
    return bool(_FRAMES.fullmatch(name)) or name in _REACHES or _is_odd_dunder(name)


def _is_odd_dunder(name: str) -> bool:
    return _DUNDER.fullmatch(name) is not None and not _ORDINARY_DUNDERS.fullmatch(name)
