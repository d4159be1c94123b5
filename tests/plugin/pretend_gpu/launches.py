"""Counts the kernels that a GPU would be told to run: on one, the host that launches them limits the speed.

A launch is an operator of aten that reads or writes tensors of the pretend GPU, makes no view, and is none of `FREE`.
What CUDA has a kernel for counts as on CUDA, and not as the pretend GPU computes it:

- attention (`F.scaled_dot_product_attention`) and its gradient are one launch each.  torch makes numbers of a mask of
  truth values by two more, and copies a mask whose strides are no multiples of 8 by two more, at each call;
- dropout is one launch;
- a step of an LSTM cell is two products and a kernel, and its gradient four products, a kernel and a sum;
- all steps of a GRU or an LSTM of cuDNN are one call, and so is their gradient;
- a function of torch for lists of tensors (`torch._foreach_*`) is one call.  CUDA has a kernel for some 30 to 110
  tensors of it.
"""

import re
from collections import Counter
from contextlib import ExitStack, contextmanager
from typing import Any, Callable, Dict, Iterator, NamedTuple, Optional, Tuple
from unittest.mock import patch

import pretend
import torch
import torch.nn.functional as F
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from helpers import criterion_of
from model_cases import LSTM, STOCK, Cases, make_optimizer, update
from pretend import Pretend, pretend_gpu
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from fairseq_compat import updates

aten = torch.ops.aten
FREE = set(
    "empty empty_like empty_strided new_empty new_empty_strided detach _unsafe_view _reshape_alias lift_fresh "
    "is_same_size resize_ set_ _local_scalar_dense _fused_sdp_choice result_type".split()
)
UNALIGNED = "an unaligned mask"
Table = Dict[Tuple[str, str], float]  # the launches of each operator and line of code
_OURS = re.compile(r'File "[^"]*/((?:bert_fused_plugin|fairseq)/[^"]*)", line (\d+)')


class Counts:
    """What the models of *cases* launch, those with layers having 6+6: a number for each operator and line.

    Args:
        cases: builds models and batches.
        with_lines: keep the lines of code.
    """

    def __init__(self, cases: Cases, with_lines: bool = False) -> None:
        self.cases, self.with_lines = cases, with_lines

    def training(self, name: str, cached: bool = False, words: Optional[int] = None, **options: Any) -> "Launches":
        """Count forward pass, loss and backward pass, with fairseq's criterion for its models and ours for ours."""
        model = self.model(name, **options).train()
        stock = LabelSmoothedCrossEntropyCriterion(self.cases.task, False, 0.1)
        criterion = stock if name in (STOCK, LSTM) else criterion_of(self.cases.task)
        batch = self.cases.batch(model, cached)
        batch["target"] = batch["target"][:, :words]
        batch["net_input"]["prev_output_tokens"] = batch["net_input"]["prev_output_tokens"][:, :words]
        with pretend_gpu() as gpu:
            model, batch = gpu.put(model), gpu.put(batch)
            for _ in range(2):  # some things are made once
                model.zero_grad(set_to_none=True)
                with counting(self.with_lines) as launches:
                    criterion(model, batch)[0].backward()
        return launches

    def word(self, name: str) -> Table:
        """Count what the training of a recurrent model launches for each target word."""
        few, more = (self.training(name, words=words).counts for words in (3, 6))
        return _difference(few, more, 3)

    def step(self, name: str, cached: bool = False) -> Table:
        """Count a step of beam search."""
        model = self.model(name).eval()
        batch, counts = self.cases.batch(model, cached), []
        with pretend_gpu() as gpu:
            model, batch = gpu.put(model), gpu.put(batch)
            for steps in (2, 5):
                with counting(self.with_lines) as launches:
                    self.cases.search([model], batch, max_len=steps, min_len=steps)
                counts.append(launches.counts)
        return _difference(*counts, 3)

    def update(self, size: int, stock: bool = False) -> Table:
        """Count clipping and an update of Adam, or of *stock* fairseq's, for *size* parameters in single precision."""
        with pretend_gpu() as gpu, patch.object(updates, "_fit", (lambda *lists: False) if stock else updates._fit):
            parameters = [torch.nn.Parameter(gpu.put(torch.ones(2, 3))) for _ in range(size)]
            optimizer = make_optimizer(parameters)
            for _ in range(2):  # some things are made once
                for parameter in parameters:
                    parameter.grad = torch.ones_like(parameter)
                with counting(self.with_lines) as launches:
                    update(optimizer)
        return launches.counts

    def model(self, name: str, **options: Any) -> Any:
        """Return the model *name* of model_cases.py, with dropout."""
        layers = {} if name == LSTM or name.startswith("gru: ") else {"encoder_layers": 6, "decoder_layers": 6}
        return self.cases.model(name, **layers, dropout=0.1, **options)


class Comparison(NamedTuple):
    """What a model of ours launches, what fairseq's own launches, and the ratio that we aim at."""

    ours: Callable[[Counts], Table]
    stock: Callable[[Counts], Table]
    aim: float


def _training(name: str, **how: Any) -> Callable[[Counts], Table]:
    return lambda counts: counts.training(name, **how).counts


COMPARISONS = {
    "training step, cached, drop-net 0 / transformer": Comparison(
        _training("parallel", cached=True, bert_drop_net=0.0), _training(STOCK), 0.80
    ),
    "training step, cached, drop-net 1.0 / transformer": Comparison(
        _training("parallel", cached=True, bert_drop_net=1.0), _training(STOCK), 0.65
    ),
    "target word of a training step, gru_bahdanau / lstm": Comparison(
        lambda counts: counts.word("gru: additive"), lambda counts: counts.word(LSTM), 0.38
    ),
    "step of a search, cached / transformer": Comparison(
        lambda counts: counts.step("parallel", cached=True), lambda counts: counts.step(STOCK), 0.80
    ),
    "step of a search, gru_bahdanau / lstm": Comparison(
        lambda counts: counts.step("gru: additive"), lambda counts: counts.step(LSTM), 0.92
    ),
    "clipping and Adam, 349 parameters / without the hook": Comparison(
        lambda counts: counts.update(349), lambda counts: counts.update(349, stock=True), 0.005
    ),
}


class Launches(TorchDispatchMode):
    """Counts launches within its context.

    Args:
        with_lines: keep the line of code of each, for those of the backward pass that of the forward pass; slow.
    """

    def __init__(self, with_lines: bool = False) -> None:
        super().__init__()
        self.with_lines = with_lines
        self.counts: Dict[Tuple[str, str], float] = Counter()
        self.zeros_like: Counter = Counter()  # their shapes, in the backward pass

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Optional[Dict[str, Any]] = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func._schema.name.split("::")[1]
        is_view = any(r.alias_info is not None and not r.alias_info.is_write for r in func._schema.returns)
        if not is_view and name not in FREE and any(isinstance(t, Pretend) for t in tree_leaves((args, kwargs, out))):
            self.note(name)
            if name == "zeros_like" and _node() is not None:
                self.zeros_like[tuple(out.shape)] += 1
        return out

    def note(self, name: str, count: int = 1) -> None:
        self.counts[name, self._line() if self.with_lines else ""] += count

    def _line(self) -> str:
        if _node() is None:
            return pretend._line()
        found = _OURS.findall("".join(_node().metadata.get("traceback_", ())))
        return ":".join(found[-1]) if found else "gradients, added up"


@contextmanager
def counting(with_lines: bool = False) -> Iterator[Launches]:
    """Count the launches within the context, in which there must be a pretend GPU."""
    launches = Launches(with_lines)
    with ExitStack() as stack:
        for name, forward, backward in (("lstm_cell", 3, 6), ("gru", 1, 1), ("lstm", 1, 1)):
            kernel = _kernel(launches, name, getattr(torch._VF, name), forward, backward)
            stack.enter_context(patch.object(torch._VF, name, kernel))
        stack.enter_context(patch.object(F, "dropout", _dropout(F.dropout)))
        attention = _attention(launches, F.scaled_dot_product_attention)
        stack.enter_context(patch.object(F, "scaled_dot_product_attention", attention))
        if with_lines:
            stack.enter_context(torch.autograd.set_detect_anomaly(True, check_nan=False))
        stack.enter_context(launches)
        yield launches


def as_json(counts: Counts) -> Dict[str, Any]:
    """Return the launches of each comparison, in all and by operator and line."""
    result = {}
    for name, comparison in COMPARISONS.items():
        sides = {"ours": comparison.ours(counts), "fairseq": comparison.stock(counts)}
        totals = {side: sum(table.values()) for side, table in sides.items()}
        lines = {side: _sorted(table) for side, table in sides.items()}
        ratio = totals["ours"] / totals["fairseq"]
        result[name] = {**totals, "ratio": ratio, "aim": comparison.aim, "lines": lines}
    return result


def _sorted(table: Table) -> Dict[str, float]:
    rows = sorted(table.items(), key=lambda row: (-row[1], row[0]))
    return {f"{operator} {line}".strip(): count for (operator, line), count in rows}


def _difference(few: Table, more: Table, steps: int) -> Table:
    return {key: (more[key] - few.get(key, 0)) / steps for key in more if more[key] != few.get(key, 0)}


def is_aligned(mask: Tensor) -> bool:
    """Return whether torch's attention takes *mask* as it is."""
    return mask.stride(-1) == 1 and all(stride % 8 == 0 for stride in mask.stride()[:-1])


def _node() -> Any:
    return torch._C._current_autograd_node()


def _kernel(launches: Launches, name: str, real: Callable[..., Any], forward: int, backward: int) -> Callable[..., Any]:
    """Return torch's recurrent function *name*, which counts as on CUDA."""
    detour = pretend.detoured(real)

    def call(*args: Any) -> Any:
        if not any(isinstance(leaf, Pretend) for leaf in tree_leaves(args)):
            return real(*args)
        launches.note(name, forward)
        out = detour(*args)
        if torch.is_grad_enabled():
            launches.note(f"{name}, backward", backward)
        return out

    return call


def _dropout(real: Callable[..., Any]) -> Callable[..., Any]:
    def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        if not isinstance(input, Pretend) or not training or p == 0:
            return real(input, p, training, inplace)
        return torch.native_dropout(input, p, True)[0]

    return dropout


def _attention(launches: Launches, real: Callable[..., Any]) -> Callable[..., Any]:
    def attention(
        query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor] = None,
        dropout_p: float = 0.0, is_causal: bool = False, **options: Any,
    ) -> Tensor:  # fmt: skip
        if not isinstance(query, Pretend):
            return real(query, key, value, attn_mask, dropout_p, is_causal, **options)
        if attn_mask is not None:
            if attn_mask.dtype == torch.bool:
                attn_mask = Pretend(torch.where(attn_mask.elem, 0.0, -torch.inf).to(query.dtype))
                launches.note("a mask of truth values", 2)
            if not is_aligned(attn_mask):
                launches.note(UNALIGNED, 2)
            attn_mask = attn_mask.expand(*query.shape[:-1], key.size(-2))
        kernel = aten._scaled_dot_product_flash_attention_for_cpu
        return kernel(query, key, value, 0.0, is_causal, attn_mask=attn_mask, scale=options.get("scale"))[0]

    return attention
