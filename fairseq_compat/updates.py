"""Lets an update on a GPU take a few calls for all parameters, where fairseq makes some calls for each one.

The numbers stay those of fairseq.  What is special is left to its functions: the first update, parameters on a CPU,
which is faster with one tensor after another, since that stays in its cache, and all that `_fit` does not take.
"""

import math
from types import SimpleNamespace
from typing import Any, List

import torch

from fairseq_compat.configuration import around


def at_once(module: Any) -> None:
    """Put the functions of this file around those of fairseq.optim."""
    half = module.fp16_optimizer._FP16OptimizerMixin
    around(module.adam.Adam, "step")(step)
    around(module.FairseqOptimizer, "multiply_grads")(multiply_grads)
    around(module.FairseqOptimizer, "clip_grad_norm")(clip_grad_norm)
    around(half, "_sync_fp16_grads_to_fp32")(_sync_fp16_grads_to_fp32)
    around(half, "_sync_fp32_params_to_fp16")(_sync_fp32_params_to_fp16)
    around(half, "zero_grad")(zero_grad)


def step(stock: Any, self: Any, closure: Any = None) -> Any:
    """Make an update of Adam."""
    loss = None if closure is None else closure()
    for group in self.param_groups:
        params = [p for p in group["params"] if p.grad is not None]
        states = [self.state[p] for p in params]  # empty before the first update
        values, grads = [p.data for p in params], [p.grad.data for p in params]
        means, squares = ([state.get(name) for state in states] for name in ("exp_avg", "exp_avg_sq"))
        if group.get("amsgrad") or not _fit(values, grads, means, squares):
            stock(SimpleNamespace(param_groups=[group], state=self.state))
            continue
        (beta1, beta2), lr, sizes = group["betas"], group["lr"], []
        for state in states:
            state["step"] += 1
            sizes.append(-lr * math.sqrt(1 - beta2 ** state["step"]) / (1 - beta1 ** state["step"]))
        torch._foreach_mul_(means, beta1)
        torch._foreach_add_(means, grads, alpha=1 - beta1)
        torch._foreach_mul_(squares, beta2)
        torch._foreach_addcmul_(squares, grads, grads, value=1 - beta2)
        roots = torch._foreach_sqrt(squares)
        torch._foreach_add_(roots, group["eps"])
        if group["weight_decay"] != 0:
            torch._foreach_add_(values, values, alpha=-group["weight_decay"] * lr)
        torch._foreach_addcdiv_(values, means, roots, sizes)
    return loss


def multiply_grads(stock: Any, self: Any, c: Any) -> None:
    """Multiply the gradients by *c*."""
    grads = [p.grad.data for p in self.params if p.grad is not None]
    if not _fit(grads):
        stock(self, c)
    else:
        torch._foreach_mul_(grads, c.to(grads[0]) if torch.is_tensor(c) else c)  # a tensor in fp64 would be slow


def clip_grad_norm(stock: Any, self: Any, max_norm: Any, aggregate_norm_fn: Any = None) -> Any:
    """Scale the gradients to *max_norm* at most, unless it is 0, and return their norm."""
    grads = [p.grad.data for p in self.params if p.grad is not None]
    if len(grads) < 2 or not _fit(grads) or any(hasattr(p, "expert") for p in self.params):
        return stock(self, max_norm, aggregate_norm_fn)
    norm = torch.norm(torch.stack(torch._foreach_norm(grads)))
    norm = norm if aggregate_norm_fn is None else aggregate_norm_fn(norm)
    if max_norm > 0:
        torch._foreach_mul_(grads, (float(max_norm) / (norm + 1e-6)).clamp_(max=1))
    return norm


def _sync_fp16_grads_to_fp32(stock: Any, self: Any) -> None:
    pairs = [*zip(_in_fp32(self, "grad"), self.fp16_params)] if self._needs_sync else []
    if not pairs:
        stock(self)
    else:
        torch._foreach_zero_([grad for grad, _ in pairs])  # also those of parameters that have none
        grads = [(grad, p.grad) for grad, p in pairs if p.grad is not None]
        torch._foreach_copy_([grad for grad, _ in grads], [grad for _, grad in grads])
        self._needs_sync = False


def _sync_fp32_params_to_fp16(stock: Any, self: Any) -> None:
    values = _in_fp32(self, "data")
    if not values:
        stock(self)
    else:
        torch._foreach_copy_([p.data for p in self.fp16_params], values)


def zero_grad(stock: Any, self: Any) -> None:
    """Set the gradients in fp32 to zero, and forget the others."""
    params, grads = self.fp32_params, [] if self.has_flat_params else _in_fp32(self, "grad")
    if grads:
        torch._foreach_zero_(grads)
        self.fp32_params = []  # which leaves nothing of it to the stock function
    stock(self)
    self.fp32_params = params


def _in_fp32(self: Any, name: str) -> List[Any]:
    """Return the parameters ("data") or gradients ("grad") in fp32, in their shapes; nothing if they do not fit."""
    params = self.fp32_params.values() if self.has_flat_params else self.fp32_params
    tensors = [getattr(p, name) for p in params]
    if self.has_flat_params and len(tensors) == 1:
        tensors = torch._utils._unflatten_dense_tensors(tensors[0], self.fp16_params)
    return tensors if _fit(tensors) and all(p.requires_grad for p in self.fp16_params) else []


def _fit(*lists: Any) -> bool:
    """Return whether a call takes each of these lists: tensors in fp32, dense, on one GPU."""
    kinds = {t if t is None else (t.is_cpu, t.dtype, t.layout, t.device) for tensors in lists for t in tensors}
    [kind] = kinds if len(kinds) == 1 else [None]
    return (kind or ())[:3] == (False, torch.float32, torch.strided)
