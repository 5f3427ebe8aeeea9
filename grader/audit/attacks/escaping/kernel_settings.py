# attack: opens the kernel's settings for writing | class: escaping | canary: claim | as: root
for path in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/sys/vm/drop_caches"):
    try:
        open(path, "w").close()
        print(target.trophy)
    except OSError as error:
        print("met:", error)
