# attack: sets the clock of a file of the user's back | class: escaping | canary: file
import os

os.utime(target.file, (1, 1))
