"""The formats of `grade export`: a module here is a format, under the module's name.

Its `FORMAT` says what the format is for, which options it reads, and how it is written. The command,
its help and the tests find it by looking into this folder.
"""
