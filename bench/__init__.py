"""What Lab Bench costs, each figure a ratio against a peer or a floor that is measured beside it."""
