"""What Lab Bench costs, each figure a ratio against a peer or a floor that is measured beside it."""

# The exercises that the bounds were set for; the whole course has a bound of its own.
SIX = ("gelu", "glu", "grad_norms", "lr_finder", "collate", "data_parallel")
