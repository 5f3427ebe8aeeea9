# attack: removes a file of the user's | class: escaping | canary: file
import os

os.remove(target.file)
