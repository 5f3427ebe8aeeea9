"""Benchmarks: each figure is a ratio to a peer or a floor, measured side by side."""

# The exercises that the bounds were set for; the whole course has a bound of its own.
SIX = ("gelu", "glu", "grad_norms", "lr_finder", "collate", "data_parallel")
