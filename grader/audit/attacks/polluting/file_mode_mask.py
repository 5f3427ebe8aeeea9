# attack: leaves files that nobody can read to the next submission | class: polluting | canary: next
import os

os.umask(0o777)
