"""Write AdamW, the optimizer of most large models: Adam with decoupled weight decay.

Weight decay pulls every weight towards zero a little, at each step. Adam divides each gradient by the size that
it usually has. If the pull is part of the gradient (L2 regularization), it is divided, too, and a weight with
large gradients hardly decays. *Decoupled* from the gradient, it shrinks all alike.

Source: Loshchilov and Hutter (2019), "Decoupled Weight Decay Regularization", algorithm 2; Kingma and Ba
(2015), "Adam: A Method for Stochastic Optimization", algorithm 1.

What holds for every exercise: docs/every-exercise.md.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch


class AdamW(torch.optim.Optimizer):
    """Adam with decoupled weight decay, or with L2 regularization.

    The five options are keys of the parameter groups, under their names below. A group may bring its own:
    `AdamW([{"params": weights}, {"params": biases, "weight_decay": 0.0}], lr=1e-3)`.

    A new AdamW over equal parameters that loads a saved `state_dict()` goes on bit for bit as this one would
    have. `torch.optim.Optimizer` saves and loads the groups and `self.state[parameter]`, and nothing else. What
    you keep there is up to you, as long as `torch.load(..., weights_only=True)` reads it.

    Not allowed: PyTorch's own `Adam` and `AdamW`, their functions (`torch.optim.adamw.adamw`, ...) and fused
    operators, called or subclassed. `torch._foreach_add_` and the like are fine.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        decoupled_weight_decay: bool = True,
    ) -> None:
        """Check the options, and hand them to `torch.optim.Optimizer` as the defaults of the groups.

        Raises ValueError that names the argument if `lr`, `eps` or `weight_decay` is below 0, or one of the two
        `betas` is outside of [0, 1). Zeros are fine.
        """
        # begin solution: check the options, and call super().__init__
        for name, value in (("lr", lr), ("eps", eps), ("weight_decay", weight_decay)):
            if value < 0:
                raise ValueError(f"{name} must not be below 0, got {value}")
        if not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"betas must be in [0, 1), got {betas}")
        options = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, options | {"decoupled_weight_decay": decoupled_weight_decay})
        # end solution

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient, and return the closure's result, or None.

        Let g be the gradient of a parameter, of any shape, and t the number of its own updates: 1 at its first
        one. Its moments m and v start at zero.

        1. Decay. With `decoupled_weight_decay` the parameter is multiplied by `1 - lr * weight_decay`. Without
           it (Adam with L2), g is `gradient + weight_decay * parameter` from here on.
        2. Moments. `m = beta1 * m + (1 - beta1) * g` and `v = beta2 * v + (1 - beta2) * g**2`.
        3. Correction of their start at zero. `m_hat = m / (1 - beta1**t)` and `v_hat = v / (1 - beta2**t)`.
        4. Update. `parameter -= lr * m_hat / (sqrt(v_hat) + eps)`.

        - The options are read from the parameter's group at each step, so that a scheduler can change them.
        - A parameter whose `.grad` is None is left alone: no decay, no change of its moments, and the step does
          not count for it. A gradient of zeros is a gradient.
        - `closure`, if given, is called once, before the update and with autograd enabled: it computes the
          gradients of this step.
        - Each `.grad` is left as it is. Parameters stay leaves.
        """
        # begin solution: the closure, then the four steps
        result = None
        if closure is not None:
            with torch.enable_grad():
                result = closure()
        with torch.no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        self._update(parameter, group)
        return result
        # end solution

    # begin solution: one parameter
    def _update(self, parameter: torch.Tensor, group: dict[str, Any]) -> None:
        """Update one parameter by its gradient, with the options of its group."""
        lr, (beta1, beta2), decay = group["lr"], group["betas"], group["weight_decay"]
        gradient = parameter.grad
        assert gradient is not None
        if group["decoupled_weight_decay"]:
            parameter.mul_(1 - lr * decay)
        else:
            # Not in place, because .grad belongs to the caller.
            gradient = gradient + decay * parameter
        # The state dict saves and loads everything in here.
        state = self.state[parameter]
        if not state:
            state.update(step=0, m=torch.zeros_like(parameter), v=torch.zeros_like(parameter))
        state["step"] += 1
        state["m"].mul_(beta1).add_(gradient, alpha=1 - beta1)
        state["v"].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        m_hat = state["m"] / (1 - beta1 ** state["step"])
        v_hat = state["v"] / (1 - beta2 ** state["step"])
        parameter.sub_(lr * m_hat / (v_hat.sqrt() + group["eps"]))

    # end solution
