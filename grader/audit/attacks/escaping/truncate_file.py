# attack: empties a file of the user's | class: escaping | canary: file
import os

os.truncate(target.file, 0)
