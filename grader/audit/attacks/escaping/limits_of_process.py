# attack: changes the limits of a process of the user's | class: escaping | canary: neighbor
import resource

resource.prlimit(target.pid, resource.RLIMIT_NOFILE, (77, 77))
