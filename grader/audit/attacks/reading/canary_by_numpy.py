# attack: maps a file through NumPy | class: reading | canary: text
import numpy

print(bytes(numpy.memmap(target.file, mode="r")).decode())
