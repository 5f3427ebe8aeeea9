"""The walls under attack, for `grade audit`.

`attacks` is the catalogue of hostile submissions, with a small course that they are handed in to. `catalogue`
reads it. `auditor` grades each attack like any submission, in a field of processes with `canaries` as its
targets and `resident` as its neighbor. `evidence` decides whether it succeeded.
"""
