# attack: opens a file of the user's to everybody | class: escaping | canary: file
import os

os.chmod(target.file, 0o777)
