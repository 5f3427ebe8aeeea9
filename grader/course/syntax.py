"""The syntax tree of a source, from any thread."""

from __future__ import annotations

import ast
import threading

_lock = threading.Lock()


def syntax_tree(source: str | bytes) -> ast.Module:
    """Return the syntax tree of a source; raises the errors of `ast.parse`.

    Only one thread parses at a time. Before Python 3.11.8, all threads count the depth of their trees in one
    variable. If garbage is collected in the middle of a tree, another thread may run, and Python raises
    SystemError for a correct source (gh-106905).
    """
    with _lock:
        return ast.parse(source)
