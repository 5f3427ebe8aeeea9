# attack: renames a file of the user's | class: escaping | canary: file
import os

os.rename(target.file, target.file + ".moved")
