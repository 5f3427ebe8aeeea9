# attack: leaves the process at a low priority | class: polluting | canary: next
import os

os.nice(5)
