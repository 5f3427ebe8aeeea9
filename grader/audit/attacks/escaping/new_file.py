# attack: leaves a file in a folder of the user's | class: escaping | canary: file
import os

os.mkfifo(target.folder + "/new")
