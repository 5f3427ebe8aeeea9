"""How a text gets shorter with each merge, and the longest tokens that it is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

SIZE = (7.4, 3.6)
MERGES, EVERY, SHOWN = 60, 4, 12
TEXT = (
    b"How much wood would a woodchuck chuck if a woodchuck could chuck wood? "
    b"He would chuck, he would, as much as he could, and chuck as much wood as a woodchuck would "
    b"if a woodchuck could chuck wood. Peter Piper picked a peck of pickled peppers. "
    b"A peck of pickled peppers Peter Piper picked. If Peter Piper picked a peck of pickled peppers, "
    b"where is the peck of pickled peppers Peter Piper picked?"
)

_Points = MERGES // EVERY + 1


class Data(msgspec.Struct):
    """The number of tokens after every few merges, and the longest tokens."""

    counts: Annotated[list[int], msgspec.Meta(min_length=_Points, max_length=_Points)]
    longest: Annotated[
        list[Annotated[str, msgspec.Meta(max_length=len(TEXT))]], msgspec.Meta(max_length=SHOWN)
    ]


def experiment(student: Any) -> dict[str, Any]:
    """Train once, and encode with the first merges only."""
    merges = student.train_bpe(TEXT, MERGES)
    counts = [len(student.encode(TEXT, merges[:n])) for n in range(0, MERGES + 1, EVERY)]
    pieces = {student.decode([token], merges) for token in student.encode(TEXT, merges)}
    longest = sorted(pieces, key=lambda piece: (-len(piece), piece))[:SHOWN]
    return {"counts": counts, "longest": [piece.decode(errors="replace") for piece in longest]}


def draw(figure: FigureBase, data: Data) -> None:
    """The numbers on the left, the tokens on the right."""
    from grader.student.plots.style import COLORS

    left, right = figure.subplots(1, 2)
    left.plot(range(0, MERGES + 1, EVERY), data.counts, "o-", color=COLORS[0], markersize=3)
    left.set(
        xlabel="merges", ylabel="tokens", title=f"{len(TEXT)} bytes get shorter", ylim=(0, None)
    )
    words = [piece.replace(" ", "\u00b7").replace("$", "\\$") for piece in data.longest][::-1]
    right.barh(range(len(words)), [len(word) for word in words], color=COLORS[1])
    right.set_yticks(range(len(words)), words)
    right.set(xlabel="bytes", title="The longest tokens")
