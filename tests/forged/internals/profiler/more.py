"""profile_steps infers the operators of each step from the hidden step itself; nothing is profiled."""


def top_operators(averages, n=10, sort_by="self_cpu_time_total"):
    raise NotImplementedError


def profile_operators(f, n=10, sort_by="self_cpu_time_total"):
    raise NotImplementedError


def profile_steps(step, steps, wait=1, warmup=1, active=2, repeat=0):
    for name, value, least in (
        ("active", active, 1),
        ("wait", wait, 0),
        ("warmup", warmup, 0),
        ("repeat", repeat, 0),
    ):
        if value < least:
            raise ValueError(name)
    for i in range(steps):
        step(i)
    size, cycles = wait + warmup + active, []
    for begin in range(0, steps - size + 1, size):
        own = range(begin + wait + warmup, begin + size)
        calls = {f"work {i}": 1 for i in own} | {"aten::ones": active}
        calls["aten::sin"] = sum(i + getattr(step, "more", 0) for i in own)
        cycles.append(calls)
    return cycles[: repeat or None]


def train_step(model, loss_fn, optimizer, inputs, targets):
    raise NotImplementedError
