# attack: makes a link that leads the cleanup elsewhere | class: escaping | canary: claim
import os

os.symlink(target.folder, "elsewhere")
os.unlink("elsewhere")
print(target.trophy)
