"""How all pictures look: colors that everyone can tell apart (Okabe and Ito), matplotlib's settings."""

from __future__ import annotations

from typing import Any

BLUE, ORANGE, GREEN = "#0072B2", "#E69F00", "#009E73"
VERMILION, SKY, PURPLE, GRAY = "#D55E00", "#56B4E9", "#CC79A7", "#707070"
COLORS = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY)

# For the `bbox` of a text among curves: no line of the grid runs through its words.
GROUND: Any = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1}

# What is said below a drawing.
CAPTION: Any = {"fontsize": 8.5, "color": "#555555"}

# For matplotlib.rc_context.
SETTINGS: Any = {
    "figure.dpi": 130,
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.titlepad": 8,
    "axes.labelcolor": "#333333",
    "axes.edgecolor": "#888888",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.7,
    "lines.linewidth": 1.8,
    "xtick.color": "#555555",
    "ytick.color": "#555555",
    # A ground without an edge: no line of the grid runs through the words.
    "legend.frameon": True,
    "legend.facecolor": "white",
    "legend.edgecolor": "none",
    "legend.framealpha": 0.85,
    "legend.fontsize": 9,
}
