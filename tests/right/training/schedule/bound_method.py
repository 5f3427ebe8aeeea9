# right: a bound method as LambdaLR's function; a NamedTuple, torch.jit.script, torch.lerp; modes and gradients set by hand
"""Odd: torch arithmetic, int 1, jit helper, subclass with a bound method, manual grads None, clones, mode left in eval."""
import math
from typing import NamedTuple
import torch
@torch.jit.script
def half_cosine(progress: float) -> float:
    return 0.5 * (1.0 + math.cos(3.141592653589793 * progress))
class Plan(NamedTuple):
    total_steps: int
    warmup_steps: int = 0
    min_factor: float = 0.0
def checked(plan):
    if plan.total_steps < 1: raise ValueError("total_steps")
    if plan.warmup_steps not in range(plan.total_steps + 1): raise ValueError("warmup_steps")
    if not (0 <= plan.min_factor <= 1): raise ValueError("min_factor")
    return plan
def warmup_cosine(step: int, total_steps: int, warmup_steps: int = 0, min_factor: float = 0.0) -> float:
    checked(Plan(total_steps, warmup_steps, min_factor))
    if step < 0: raise ValueError("step")
    if step >= total_steps: return min_factor
    if step < warmup_steps: return torch.linspace(1, warmup_steps, warmup_steps, dtype=torch.float64).div(warmup_steps)[step].item()
    if step == warmup_steps: return 1
    return torch.lerp(torch.tensor(min_factor, dtype=torch.float64), torch.tensor(1.0, dtype=torch.float64), half_cosine((step - warmup_steps) / (total_steps - warmup_steps))).item()
class Warm(torch.optim.lr_scheduler.LambdaLR):
    def __init__(self, optimizer, plan, last_epoch):
        self.plan = list(plan)
        super().__init__(optimizer, self.factor, last_epoch)
    def factor(self, step):
        return warmup_cosine(step, *self.plan)
def warmup_cosine_scheduler(optimizer, total_steps, warmup_steps=0, min_factor=0.0, last_epoch=-1):
    return Warm(optimizer, checked(Plan(total_steps, warmup_steps, min_factor)), last_epoch)
def train_with_schedule(model, loader, loss_fn, optimizer, scheduler, epochs):
    if epochs < 1: raise ValueError(f"epochs={epochs}")
    out = []
    iterator = iter(())
    while epochs or True:
        try:
            inputs, targets = next(iterator)
        except StopIteration:
            if epochs == 0: break
            epochs -= 1
            iterator = iter(loader)
            continue
        for module in model.modules(): module.training = True
        for p in model.parameters(): p.grad = None
        loss = loss_fn(model(inputs.clone()), targets.clone())
        loss.backward()
        out.append(scheduler.optimizer.param_groups[0]["lr"] * 1.0)
        scheduler.optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
    model.eval()
    return out
