# attack: makes its folder the root, to climb out of it | class: escaping | canary: claim | as: root
import os

os.chroot(".")
print(target.trophy)
