# right: a global forward hook, pre-hooks on the nodes that accumulate gradients, anomaly mode put back by hand
import re
import torch, math, contextlib
from torch.nn.modules.module import register_module_forward_hook

def gradient_norms(model):
    d = dict(model.named_parameters())
    for k in d:
        g = d[k].grad
        d[k] = g if g is None else math.sqrt(g.double().square().sum().item()) if g.isfinite().all() else g.norm().item()
    return d

ok = lambda v: not isinstance(v, torch.Tensor) or not ((v != v) | (v == float("inf")) | (v == -float("inf"))).any().item()

def leaves(v):
    if isinstance(v, dict): return [y for x in v.values() for y in leaves(x)]
    if isinstance(v, (list, tuple)): return [y for x in v for y in leaves(x)]
    return [v]

def first_non_finite(model, *inputs):
    names = {id(m): n for n, m in model.named_modules()}
    result = None
    def hook(m, i, o):
        nonlocal result
        if result is None and id(m) in names and not all(map(ok, leaves(o))):
            result = names[id(m)]
    h = register_module_forward_hook(hook)
    try: model(*inputs)
    finally: h.remove()
    return result

@contextlib.contextmanager
def watch_gradients(model):
    with contextlib.ExitStack() as stack:
        nodes = []
        for name, p in model.named_parameters():
            if not p.requires_grad: continue
            with torch.enable_grad():
                node = p.view_as(p).grad_fn.next_functions[0][0]
            nodes.append(node)
            def pre(grads, name=name):
                for g in grads:
                    if g is not None and not ok(g): raise RuntimeError("gradient of " + name)
            stack.callback(node.register_prehook(pre).remove)
        yield nodes

def backward_nan(closure):
    before = torch.is_anomaly_enabled()
    torch.autograd.set_detect_anomaly(True)
    try:
        loss = closure()
        loss.backward()
    except RuntimeError as error:
        match = re.match(r"Function '(.+)' returned nan values in its \d+th output", str(error))
        if match is None:
            raise
        return match[1]
    finally:
        torch.autograd.set_detect_anomaly(before)
    return None
