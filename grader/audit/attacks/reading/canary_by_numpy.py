# attack: has NumPy map a file for it | class: reading | canary: text
import numpy

print(bytes(numpy.memmap(target.file, mode="r")).decode())
