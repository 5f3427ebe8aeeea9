# attack: makes a device node for the machine's memory | class: escaping | canary: claim | as: root
import os
import stat

os.mknod("memory", 0o600 | stat.S_IFCHR, os.makedev(1, 1))
print(target.trophy)
