"""The walls under attack, for `grade audit`.

`attacks` is the catalogue: hostile submissions, and the little course that they are handed in to. `catalogue`
reads it, `auditor` grades each attack as any submission in a field of processes, where `canaries` are what it
aims at and `resident` is its neighbor. `evidence` tells whether it succeeded.
"""
