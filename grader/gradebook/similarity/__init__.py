"""Alike files of a class, for `grade similar`.

`survey` compares the files of a class for each exercise, and gathers pairs in groups. `normal_form` rewrites
code in a canonical way, `fingerprints` hashes runs of its tokens, and `comparison` finds common parts of two
files. `evidence` learns from the class which similarity is unusual. `findings` has the results, their file, and
an export for Dolos and JPlag. `corpus` compares a class with former ones.

copydetect is not used. Its last change was in March 2024, it compares all pairs of files, and its choice of
fingerprints depends on Python's hash seed: in three processes, the same two files were 0, 13 and 14 % alike.
"""
