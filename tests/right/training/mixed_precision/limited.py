# right: limits of the scale, a decorated loss, clipping by hand
import torch, math, numpy as np, warnings
warnings.warn("half")
def underflow_fraction(values, scale=1.0):
    n = lost = 0
    for v, w in zip(values.detach().flatten().tolist(), (values.detach() * scale).flatten().tolist()):
        if v:
            n += 1
            with np.errstate(all="ignore"):
                lost += not np.float16(np.float32(w) if values.dtype == torch.float32 else w)
    return lost / max(n, 1)
class Iteration:
    def __init__(self): self.bad = self.done = False
class GradScaler(object):
    __slots__ = ("value", "rule", "iteration", "_good")
    def __init__(self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000):
        for k, ok in dict(init_scale=init_scale > 0, growth_factor=growth_factor > 1, backoff_factor=0 < backoff_factor < 1, growth_interval=growth_interval >= 1).items():
            if not ok:
                class E(ValueError): pass
                raise E("wrong " + k)
        self.value, self.rule, self.iteration, self._good = init_scale * 1.0, (growth_factor, backoff_factor, growth_interval), Iteration(), 0
    def get_scale(self): return self.value
    def scale(self, loss):
        class Mul(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x): return x * self.value
            @staticmethod
            def backward(ctx, g): return g * self.value
        return Mul.apply(loss)
    def unscale_(self, optimizer):
        it = self.iteration
        if it.done: raise RuntimeError
        it.done = True
        inv = 1.0 / self.value
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is None: continue
                p.grad.data.mul_(inv)
                x = p.grad.data
                it.bad = it.bad or bool((x != x).any()) or bool((x.abs() == math.inf).any())
    def step(self, optimizer):
        if not self.iteration.done: self.unscale_(optimizer)
        if self.iteration.bad: return False
        optimizer.step(); return True
    def update(self):
        grow, back, every = self.rule
        if self.iteration.bad:
            self.value, self._good = max(self.value * back, 1e-6), 0
        elif self.iteration.done:
            self._good += 1
            if self._good >= every: self.value, self._good = min(self.value * grow, 1.5e12), 0
        self.iteration = Iteration()
@torch.autocast("cpu", dtype=torch.bfloat16)
def _loss(model, loss_fn, inputs, targets):
    out = model(inputs)
    return loss_fn(out.to(torch.float32), targets)
def train_step(model, loss_fn, optimizer, inputs, targets, scaler=None, max_norm=None):
    for group in optimizer.param_groups:
        for p in group["params"]: p.grad = None
    loss = _loss(model, loss_fn, inputs, targets)
    value = float(loss.detach())
    if scaler is not None: loss = scaler.scale(loss)
    loss.backward()
    if scaler is not None: scaler.unscale_(optimizer)
    if max_norm is not None:
        g = [p.grad for p in model.parameters() if p.grad is not None]
        total = math.sqrt(sum(float(x.double().pow(2).sum()) for x in g))
        if total > max_norm:
            for x in g: x.mul_(max_norm / total)
    if scaler is None:
        optimizer.step()
    else:
        stepped = scaler.step(optimizer)
        print("stepped", stepped)
        scaler.update()
    return value
