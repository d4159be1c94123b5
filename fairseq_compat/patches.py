"""What fairseq_compat changes in how stock fairseq, 0.12.2 and main, computes, and reads and writes files.

Each function gets a module that has just run, and changes names of that module alone.  Its docstring says what goes
wrong without it.  Users may script, pickle, subclass and change again what is changed.
"""

import contextlib
import dataclasses
import inspect
import logging
import math
import os
import sys
from types import ModuleType, SimpleNamespace
from typing import Any, Optional

import numpy as np
import torch
from torch import Tensor

from fairseq_compat.configuration import around


def overlay(module: ModuleType, **names: Any) -> ModuleType:
    """Return a view of *module* in which *names* differ, to stand in for one importer's global."""
    view = type(sys)(module.__name__, module.__doc__)
    vars(view).update(__getattr__=lambda name: getattr(module, name), **names)
    return view


def safe_checkpoints(module: Any) -> None:
    """Let fairseq read checkpoints with an allow-list of types: torch 2.6 refuses all, and fairseq's main runs them."""
    from fairseq_compat import checkpoint

    module.torch = overlay(module.torch, load=checkpoint.load)


def checkpoints_of_any_version(module: Any) -> None:
    """Leave out the settings of a checkpoint that its task does not have, as fairseq does for the model only."""

    @around(module, "_upgrade_state_dict")  # in a config that a user wrote, such a setting is a mistake
    def _upgrade_state_dict(stock: Any, state: Any) -> Any:
        from fairseq.tasks import TASK_DATACLASS_REGISTRY

        state = stock(state)
        task: Any = state["cfg"].get("task") if state.get("cfg") else None
        known = TASK_DATACLASS_REGISTRY.get(task.get("_name")) if isinstance(task, module.DictConfig) else None
        if known is not None:
            with module.open_dict(task):
                for name in set(task) - {item.name for item in dataclasses.fields(known)}:
                    del task[name]
        return state


def checkpoints_asked_for(module: Any) -> None:
    """Let --keep-best-checkpoints N keep N from the first on, and --save-interval-updates save at the end of epochs.

    There, fairseq writes the checkpoint of the epoch instead, and with --no-epoch-checkpoints none.
    """
    paths = module.checkpoint_paths

    @around(module, "save_checkpoint")
    def save_checkpoint(stock: Any, cfg: Any, trainer: Any, epoch_itr: Any, *args: Any) -> Any:
        every = cfg.save_interval_updates
        if cfg.no_epoch_checkpoints and every > 0 and trainer.get_num_updates() % every == 0:
            within = {"end_of_epoch": lambda: False, "state_dict": epoch_itr.state_dict}
            epoch_itr = SimpleNamespace(epoch=epoch_itr.epoch, **within)

        def with_a_free_place(path: str, pattern: str, **options: Any) -> Any:
            checkpoints = paths(path, pattern, **options)  # the last is the lowest
            if "best_" not in pattern or len(checkpoints) >= cfg.keep_best_checkpoints:
                return checkpoints
            return [*checkpoints, "_-inf"] if cfg.maximize_best_checkpoint_metric else ["_inf", *checkpoints]

        module.checkpoint_paths = with_a_free_place
        try:
            return stock(cfg, trainer, epoch_itr, *args)  # fairseq's main returns the path, for task.post_save
        finally:
            module.checkpoint_paths = paths


def bad_validations(module: Any) -> None:
    """Let --lr-scheduler reduce_lr_on_plateau go on with its count of bad validations after a restart."""
    schedule = module.ReduceLROnPlateauLRSchedule

    count = "num_bad_epochs"
    around(schedule, "state_dict")(lambda stock, self: {**stock(self), count: self.lr_scheduler.num_bad_epochs})

    @around(schedule, "load_state_dict")
    def load_state_dict(stock: Any, self: Any, state: Any) -> None:
        stock(self, state)
        self.lr_scheduler.num_bad_epochs = state.get(count, 0)


def swish(module: Any) -> None:
    """Let --activation-fn swish be a choice, and a function; fairseq ends with an error."""
    around(module, "get_available_activation_fns")(lambda stock: [*dict.fromkeys([*stock(), "swish"])])
    silu = torch.nn.functional.silu
    around(module, "get_activation_fn")(lambda stock, activation: silu if activation == "swish" else stock(activation))


def whole_copies(module: Any) -> None:
    """Let fairseq replace checkpoint_best.pt and checkpoint_last.pt, which are copies, whole or not at all."""
    manager = module.PathManager
    stock = manager.copy

    def copy(src_path: str, dst_path: str, overwrite: bool = False) -> Any:
        if not overwrite or not manager.supports_rename(dst_path):
            return stock(src_path, dst_path, overwrite)
        new = f"{dst_path}.tmp"
        try:
            done = stock(src_path, new, overwrite=True)
            os.replace(new, dst_path)
            return done
        finally:
            with contextlib.suppress(OSError):
                os.remove(new)

    manager.copy = staticmethod(copy)


def numpy_aliases(module: Any) -> None:
    """Give fairseq what numpy has removed: int and float (1.24), then compat.long and percentile(interpolation=)."""
    numpy = module.np

    def percentile(*args: Any, interpolation: str = "linear", **options: Any) -> Any:
        return numpy.percentile(*args, method=interpolation, **options)

    module.np = overlay(numpy, int=int, float=float, compat=SimpleNamespace(long=int), percentile=percentile)


def no_lost_sentences(module: Any) -> None:
    """Let batch_by_size keep the last batch, which fairseq's main loses."""

    @around(module, "batch_by_size")
    def batch_by_size(stock: Any, indices: Any, *args: Any, **options: Any) -> Any:
        if not isinstance(indices, np.ndarray):
            indices = np.fromiter(indices, dtype=np.int64, count=-1)
        if len(indices) == 0:
            return []
        batches = stock(indices, *args, **options)
        lost = indices[sum(map(len, batches)) :]  # those of a batch follow those of the batch before
        return batches if len(lost) == 0 else [*batches, lost]


def names_of_valid_subsets(module: Any) -> None:
    """Let --valid-subset valid,valid1 be read, of which fairseq says "will be ignored" by names as valid1.en-de.en."""
    around(module, "_find_extra_valid_paths")(lambda stock, path: {name.split(".")[0] for name in stock(path)})


def same_batches_when_resumed(module: Any) -> None:
    """Let a training that is resumed in a later epoch have the batches of the unbroken one."""
    # fairseq's main makes the batches once, seeded with the number of this epoch.  0.12.2 has no make_batches.
    if "make_batches" not in module.FairseqTask.get_batch_iterator.__code__.co_varnames:
        return
    signature = inspect.signature(module.FairseqTask.get_batch_iterator)

    @around(module.FairseqTask, "get_batch_iterator")
    def get_batch_iterator(stock: Any, self: Any, *args: Any, **options: Any) -> Any:
        bound = signature.bind(self, *args, **options)
        asked, dataset, epoch = bound.arguments, bound.arguments["dataset"], bound.arguments.get("epoch", 1)
        for_this_epoch = asked.get("disable_iterator_cache") or asked.get("update_epoch_batch_itr")
        made_before = dataset in self.dataset_to_epoch_iter
        if epoch == 1 or for_this_epoch or made_before or not self.can_reuse_epoch_itr(dataset):
            return stock(*bound.args, **bound.kwargs)
        asked["epoch"] = 1
        iterator = stock(*bound.args, **bound.kwargs)
        dataset.set_epoch(epoch)
        iterator.epoch = epoch
        return iterator


def no_encoder_fast_path(module: Any) -> None:
    """Let loaded encoders compute as those in training: padding ends with "Mask Type should be defined" since 1.13."""
    # fairseq asks the version of torch, and cannot read one such as 2.7.0a0+x
    module.torch = overlay(module.torch, __version__="1.11.0")
    if hasattr(module, "TransformerEncoderLayerBase"):  # whose flag encoders of other plug-ins ask for

        @around(module.TransformerEncoderLayerBase, "__init__")
        def init(stock: Any, self: Any, *args: Any, **options: Any) -> None:
            stock(self, *args, **options)
            self.can_use_fastpath = False


def bias_of_scores(module: Any) -> None:
    """Let a decoder whose checkpoint has a bias of the scores add it, as a constant; fairseq's has no place for it."""

    @around(module.TransformerDecoderBase, "upgrade_state_dict_named")
    def upgrade_state_dict_named(stock: Any, self: Any, state_dict: Any, name: str) -> Any:
        bias, projection = state_dict.get(f"{name}.output_projection.bias"), self.output_projection
        if bias is not None and "bias" in projection._parameters:
            del projection.bias  # which is None
            projection.register_buffer("bias", bias.to(projection.weight, copy=True))
        return stock(self, state_dict, name)


def offsets_of_large_data(module: Any) -> None:
    """Let fairseq-preprocess --workers add up sizes as integers of Python; those of numpy 2 end at 2 GiB."""

    @around(module.MMapIndexedDatasetBuilder, "finalize")
    def finalize(stock: Any, self: Any, index_file: str) -> None:
        self._sizes = [int(size) for size in self._sizes]
        stock(self, index_file)


def sentences_of_a_cache(module: Any) -> None:
    """Let --dataset-impl cached read a data set when its first sentence is asked for, instead of a KeyError."""

    @around(module.IndexedCachedDataset, "__getitem__")
    def sentence(stock: Any, self: Any, i: int) -> Any:
        if i not in self.cache_index:
            self.prefetch(range(len(self)))
        return stock(self, i)


def sampling_of_unlikely_words(module: Any) -> None:
    """Let --sampling with a low --temperature go on where all probabilities are 0 in fp32, as at the longest length."""
    module.Sampling.step_of_likely_words = module.Sampling.step

    @torch.jit.export  # which compiles this from its source, as fairseq's: what has no type is a tensor
    def step(  # type: ignore
        self,
        step: int,
        lprobs,
        scores,
        prev_output_tokens: Optional[Tensor] = None,
        original_batch_idxs: Optional[Tensor] = None,
    ):
        best = lprobs.max(dim=2)[0]
        shift = best.masked_fill(best > -80, 0.0)
        scores, words, beams = self.step_of_likely_words(
            step, lprobs - shift.unsqueeze(2), scores, prev_output_tokens, original_batch_idxs
        )
        return scores + shift, words, beams

    module.Sampling.step = step


def ngrams_so_far(module: Any) -> None:
    """Correct --no-repeat-ngram-size without the CUDA extension, where fairseq compares with padding."""

    # torch.jit compiles this from its source, as fairseq's: without a closure, and what has no type is a tensor.
    def forward(self, tokens, lprobs, bsz: int, beam_size: int, step: int):  # type: ignore
        if self.use_extension:
            return self.call_cuda_extension(tokens, lprobs, bsz, beam_size, step)
        best, place = lprobs.max(dim=1, keepdim=True)
        if self.no_repeat_ngram_size == 1:  # which fairseq ignores; the first token is the end of sentence
            lprobs = lprobs.scatter_(1, tokens[:, 1 : step + 1], -math.inf)
        else:
            lprobs = self._no_repeat_ngram(tokens[:, : step + 1], lprobs, bsz, beam_size, step)
        nothing_left = lprobs.max(dim=1, keepdim=True)[0] == -math.inf  # the token of a forced prefix stays
        return lprobs.scatter_(1, place, torch.where(nothing_left, best, lprobs.gather(1, place)))

    module.NGramRepeatBlock.forward = forward


def last_bit(module: Any) -> None:
    """Give --dataset-impl huffman the function that bitarray 3 has removed."""
    module.util = overlay(module.util, rindex=lambda bits, value: bits.find(value, right=True))


def aligned_unknown_words(module: Any) -> None:
    """Correct --replace-unk, which needs --print-alignment, as fairseq keeps no alignment without it."""

    @around(module, "replace_unk")  # which takes hard alignments, pairs (source, target), for source positions
    def replace_unk(stock: Any, hypo_str: str, src_str: str, alignment: Any, align_dict: Any, unk: str) -> Any:
        pairs = () if alignment is None else alignment
        # generators of others give positions, as the stock function takes them; soft alignments are lists
        places = [pair[0] if isinstance(pair, tuple) else pair for pair in pairs if not isinstance(pair, list)]
        if unk in hypo_str.split() and not places:
            raise ValueError("--replace-unk needs alignments; add --print-alignment (hard)")
        return stock(hypo_str, src_str, places, align_dict, unk)

    stock_dict = module.load_align_dict  # of a file; the flag alone gives "@@ "
    module.load_align_dict = lambda replace_unk: stock_dict("" if replace_unk == "@@ " else replace_unk)


def gradients_unscaled_once(module: Any) -> None:
    """Let --amp give the optimizer the gradients: after clipping, fairseq's step divides them by the scale again."""

    # the scaler knows that the gradients of this optimizer, that of clip_grad_norm, are unscaled
    module.AMPOptimizer.step = lambda self: (self.scaler.step(self.optimizer), self.scaler.update())


def attention_without_plans(module: Any) -> None:
    """Let attention on GPUs do without cuDNN, which may make a plan for each new shape, in up to half a second."""

    @around(module.BaseFairseqModel, "__init__")
    def init(stock: Any, self: Any) -> None:
        stock(self)
        if os.environ.get("FAIRSEQ_COMPAT_CUDNN_ATTENTION") != "1":
            torch.backends.cuda.enable_cudnn_sdp(False)


def numbers_of_outputs(module: Any) -> None:
    """Let a training whose numbers overflow end with fairseq's sentence: its hooks for gradients need tensors."""
    module.NanDetector.add_hooks = lambda self, part: self.fhooks.append(part.register_forward_hook(self.fhook_fn))


def bf16_when_translating(module: Any) -> None:
    """Let fairseq-generate, fairseq-interactive and fairseq-eval-lm compute in bfloat16 with --bf16."""

    @around(module.BaseFairseqModel, "prepare_for_inference_")
    def prepare_for_inference_(stock: Any, self: Any, cfg: Any) -> Any:
        # the hub interface gives the settings of the training, which have no --path, and whose --bf16 is not for this
        path = getattr(getattr(cfg, "common_eval", None), "path", None)
        if path is not None and getattr(getattr(cfg, "common", None), "bf16", False):
            self.bfloat16()
            logging.getLogger(__name__).info(f"{type(self).__name__} computes in bfloat16 (--bf16)")
        return stock(self, cfg)


def bf16_training_on_cpus(module: Any) -> None:
    """Let updates in bfloat16 on a CPU compute attention by torch's plain kernel: up to 8 times as fast."""

    @around(module.Trainer, "train_step")
    def train_step(stock: Any, self: Any, *args: Any, **options: Any) -> Any:
        flash = module.torch.backends.cuda  # the switch is that of CPUs, too
        before = flash.flash_sdp_enabled()
        flash.enable_flash_sdp(before and (self.cuda or not self.cfg.common.bf16))
        try:
            return stock(self, *args, **options)
        finally:
            flash.enable_flash_sdp(before)


def lines_of_any_bytes(module: Any) -> None:
    """Let fairseq-interactive read bytes that are no UTF-8 as U+FFFD, instead of ending, and no byte order mark."""
    hook = module.fileinput.hook_encoded("utf-8-sig", errors="replace")
    module.fileinput = overlay(module.fileinput, hook_encoded=lambda encoding: hook)

    @around(module, "buffered_read")
    def buffered_read(stock: Any, input: str, buffer_size: int) -> Any:
        if hasattr(sys.stdin, "reconfigure"):
            sys.stdin.reconfigure(encoding="utf-8-sig", errors="replace")
        return stock(input, buffer_size)


def score_cli(module: Any) -> None:
    """Let fairseq-score --sacrebleu and --sentence-bleu work with the sacreBLEU of today."""
    import sacrebleu  # which wants lists, not open files, and is adapted only while the command runs

    bleu = module.bleu
    today = overlay(sacrebleu, corpus_bleu=lambda hyps, refs: sacrebleu.corpus_bleu([*hyps], [*map(list, refs)]))

    @around(module, "cli_main")
    def cli_main(stock: Any) -> None:
        sys.modules["sacrebleu"] = today
        try:
            stock()
        finally:
            sys.modules["sacrebleu"] = sacrebleu

    def scorer(*args: Any) -> Any:
        return bleu.Scorer(args[0] if len(args) == 1 else bleu.BleuConfig(pad=args[0], eos=args[1], unk=args[2]))

    module.bleu = overlay(bleu, Scorer=scorer)
