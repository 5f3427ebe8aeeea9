"""Alike files of a class: what `grade similar` finds, and what it makes of it.

`survey` goes through a class, exercise by exercise, and gathers pairs in groups. `normal_form` writes code in
one way, `fingerprints` are runs of its tokens, and `comparison` says what two files have in common. `evidence`
learns from the class what is out of the ordinary. `findings` are the results, the file that keeps them, and the
files of a class as Dolos and JPlag read them. `corpus` compares a class with former ones.

copydetect was weighed and left: its last change is of March 2024, it compares every two files, and
its choice of fingerprints hangs on Python's hash seed (in three processes the same two files were
0, 13 and 14 % alike).
"""
