# attack: opens the machine's memory and the kernel's log | class: reading | canary: claim | as: root
for path in ("/dev/mem", "/dev/kmsg", "/proc/kcore", "/proc/kmsg"):
    try:
        open(path, "rb", 0).close()
        print(target.trophy)
    except OSError as error:
        print("met:", error)
