# attack: leaves files that nobody can read to whoever comes next | class: polluting | canary: next
import os

os.umask(0o777)
