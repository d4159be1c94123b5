"""The changes of fairseq_compat to stock fairseq, 0.12.2 and main: one function for each module that it adapts.

Loaded with the first line of fairseq.  Each function gets a module that has just run; it changes
names of that module, and of another one only where it says so.
"""

import argparse
import dataclasses
import functools
import importlib.util
import logging
import math
import os
import sys
import warnings
from typing import Any, List

from fairseq_compat.batches import no_lost_sentences, same_batches_when_resumed
from fairseq_compat.configuration import hydra_and_types, hydra_command
from fairseq_compat.files import files_of_workers, whole_copies
from fairseq_compat.overlay import overlay
from fairseq_compat.precision import bf16_training_on_cpus, bf16_when_translating, bf16_without_tpu

__all__ = [  # beside those below
    "bf16_when_translating",
    "bf16_without_tpu",
    "files_of_workers",
    "hydra_and_types",
    "hydra_command",
    "same_batches_when_resumed",
    "whole_copies",
]

USER_DIR_ERROR = (
    "--user-dir {0}: neither a folder (seen from {1}) nor a package that this Python can import; "
    "give the path of the plug-in's folder, or install the package with this Python's pip"
)

# Warnings of stock fairseq that its user can do nothing about: (category, start of the
# message, module that is blamed), both regular expressions.  Everything else stays visible.
_HOPELESS_WARNINGS = (
    # torch 2.4 renamed torch.cuda.amp.X(...) to torch.amp.X('cuda', ...)
    (FutureWarning, r"`torch\.cuda\.amp\.autocast\(args\.\.\.\)` is", r"fairseq\.tasks\."),
    (FutureWarning, r"`torch\.cuda\.amp\.GradScaler\(args\.\.\.\)` is", r"fairseq\.optim\."),
    # torch 2.0: fairseq's attention gives a bool padding mask and a float causal mask
    (UserWarning, r"Support for mismatched key_padding_mask and", r"torch\.nn\.functional$"),
    # fairseq's data loader asks for pinned memory with --cpu too
    (UserWarning, r"'pin_memory' argument is set as true but no", r"torch\.utils\.data\."),
    # Hydra 1.1 and 1.2 would like other headers and calls than fairseq-hydra-train and its files have
    (UserWarning, r"\nThe version_base parameter is not specified", r"fairseq_cli\.hydra_train$"),
    (UserWarning, r"In '.*': Usage of deprecated keyword in package header", r"hydra\.core\."),
    (UserWarning, r"\n'.*' is validated against ConfigStore schema", r"(sys|hydra\.main)$"),
    (UserWarning, r"Future Hydra versions will no longer change working", r"hydra\._internal\."),
)

# The same of log messages: logger: starts of messages.
_HOPELESS_MESSAGES = {
    # of speech synthesis, whose task is imported with all others
    "fairseq.tasks.text_to_speech": ("Please install tensorboardX: pip install tensorboardX",),
    # of fairseq's main, for each buffer of fairseq-interactive and each call of the hub interface
    "fairseq.tasks.fairseq_task": (
        *("can_reuse_epoch_itr = ", "reuse_dataloader = ", "rebuild_batches = "),
        "creating new batches for epoch ",
    ),
}


_root_logger: List[Any] = []  # as it was before fairseq: its level and its handlers


def _is_of_use(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith(_HOPELESS_MESSAGES[record.name])


def before_fairseq() -> None:
    """Prepare Python before the first line of fairseq runs; repeating it does no harm."""
    _root_logger[:] = [logging.root.level, *logging.root.handlers]
    for category, message, module in _HOPELESS_WARNINGS:
        warnings.filterwarnings("ignore", message, category, module)
    for logger in _HOPELESS_MESSAGES:
        logging.getLogger(logger).addFilter(_is_of_use)

    # Python 3.11 rejects dataclass defaults that cannot be hashed.  fairseq's configs have configs
    # as defaults; an identity hash gives those what Python 3.10 did.  Can go when fairseq uses
    # default_factory.
    stock: Any = dataclasses.dataclass
    if sys.version_info < (3, 11) or getattr(stock, "is_fairseq_compat", False):
        return

    def dataclass(cls: Any = None, /, **options: Any) -> Any:
        if cls is None:
            return lambda cls: dataclass(cls, **options)
        for default in list(vars(cls).values()):
            kind = type(default.default if isinstance(default, dataclasses.Field) else default)
            if kind.__hash__ is None and str(kind.__module__).startswith("fairseq."):
                kind.__hash__ = object.__hash__
        return stock(cls, **options)

    vars(dataclass).update(is_fairseq_compat=True, __wrapped__=stock)
    dataclasses.dataclass = dataclass


def no_root_logger(_module: Any) -> None:
    """Take back that fairseq sets up the root logger when it is imported."""
    # fairseq's main does so at level DEBUG, and the commands then cannot set up their own log.
    # Can go when fairseq.models.wav2vec.wav2vec2_classification does not call logging.basicConfig.
    if not _root_logger:  # fairseq was there before this package
        return
    level, *handlers = _root_logger
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)


def safe_checkpoints(module: Any) -> None:
    """Let fairseq read checkpoints with an allow-list of types instead of running what a pickle says."""
    # torch 2.6 made weights_only=True the default, which refuses the Namespace in a checkpoint;
    # before, torch.load ran any code that the file asked for.
    from fairseq_compat import checkpoint

    module.torch = overlay(module.torch, load=checkpoint.load)


def checkpoints_of_any_version(module: Any) -> None:
    """Read checkpoints safely, and leave out the settings of one that its task does not have any more."""
    # fairseq 0.12.2 leaves out only those of a model, and cannot load such a task.  Can go with fairseq's main.
    safe_checkpoints(module)
    stock = module._upgrade_state_dict

    @functools.wraps(stock)
    def _upgrade_state_dict(state: Any) -> Any:
        from fairseq.tasks import TASK_DATACLASS_REGISTRY

        state = stock(state)
        task: Any = None if state.get("cfg") is None else state["cfg"].get("task")
        known = TASK_DATACLASS_REGISTRY.get(task.get("_name")) if isinstance(task, module.DictConfig) else None
        if known is not None:
            with module.open_dict(task):
                for name in set(task) - {item.name for item in dataclasses.fields(known)}:
                    del task[name]
        return state

    module._upgrade_state_dict = _upgrade_state_dict


def no_encoder_fast_path(module: Any) -> None:
    """Let freshly loaded encoders compute in the same way as those in training."""
    # torch 1.13 added mask_type to the private op that the fast path calls with padding masks.
    # Can go when fairseq no longer calls torch._transformer_encoder_layer_fwd.
    layer = module.TransformerEncoderLayerBase
    stock_init = layer.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        stock_init(self, *args, **kwargs)
        self.can_use_fastpath = False

    layer.__init__ = __init__


def numpy_aliases(module: Any) -> None:
    """Give fairseq what numpy has removed: int and float (1.24), then compat.long and percentile(interpolation=)."""
    # Can go when fairseq says int, float and method=.
    numpy = module.np

    def percentile(*args: Any, interpolation: Any = None, **options: Any) -> Any:
        return numpy.percentile(*args, **options, **({"method": interpolation} if interpolation else {}))

    compat = argparse.Namespace(long=int)
    module.np = overlay(numpy, int=int, float=float, compat=compat, percentile=percentile)


def numpy_and_batches(module: Any) -> None:
    """Give fairseq what numpy has removed, and let no batch be lost."""
    numpy_aliases(module)
    no_lost_sentences(module)


def ngrams_so_far(module: Any) -> None:
    """Correct --no-repeat-ngram-size without the CUDA extension, where fairseq compares with padding."""
    stock = module.NGramRepeatBlock._no_repeat_ngram

    def _no_repeat_ngram(self: Any, tokens: Any, lprobs: Any, bsz: int, beam_size: int, step: int) -> Any:
        if self.no_repeat_ngram_size == 1:  # which fairseq ignores; the first token is the end of sentence
            return lprobs.scatter_(1, tokens[:, 1 : step + 1], -math.inf)
        return stock(self, tokens[:, : step + 1], lprobs, bsz, beam_size, step)

    module.NGramRepeatBlock._no_repeat_ngram = _no_repeat_ngram


def names_and_alignments(module: Any) -> None:
    """Let --user-dir take the name of a package, and correct --replace-unk."""
    user_dir_by_name(module)
    aligned_unknown_words(module)


def aligned_unknown_words(module: Any) -> None:
    """Correct --replace-unk, which needs --print-alignment, as fairseq keeps no alignment without it."""
    # Alignments are pairs (source, target); the stock function takes them for source positions.
    stock = module.replace_unk

    def replace_unk(hypo_str: str, src_str: str, alignment: Any, align_dict: Any, unk: str) -> Any:
        pairs = () if alignment is None else alignment
        places = [pair[0] for pair in pairs if isinstance(pair, tuple)]
        if unk in hypo_str.split() and not places:
            raise ValueError("--replace-unk needs alignments; add --print-alignment (hard)")
        return stock(hypo_str, src_str, places, align_dict, unk)

    module.replace_unk = replace_unk


def user_dir_by_name(module: Any) -> None:
    """Let --user-dir also take the name of an installed package; an existing path always wins."""
    # Not a matter of versions: fairseq looks for paths only, so that a plug-in could not be
    # installed with pip and named from any folder.
    stock = module.import_user_module

    @functools.wraps(stock)
    def import_user_module(args: Any) -> None:
        user_dir = getattr(args, "user_dir", None)
        if user_dir and os.path.isdir(user_dir) and _is_imported(user_dir):
            return
        user_dir = user_dir and user_dir.rstrip(os.sep)
        package = os.path.dirname(module.__file__)
        seen_by_stock = ("", package, os.path.dirname(package))
        if user_dir and not any(os.path.exists(os.path.join(d, user_dir)) for d in seen_by_stock):
            spec = importlib.util.find_spec(user_dir) if user_dir.isidentifier() else None
            if spec is None or not spec.submodule_search_locations:
                raise FileNotFoundError(USER_DIR_ERROR.format(user_dir, os.getcwd()))
            # A copy: the name, not this machine's path, belongs into checkpoints.
            args = argparse.Namespace(user_dir=next(iter(spec.submodule_search_locations)))
        stock(args)

    module.import_user_module = import_user_module


def _is_imported(folder: str) -> bool:
    """Return whether *folder* is a package that has been imported, although perhaps by another path.

    fairseq compares paths as texts, and takes the same package under another path for another one of its name.
    """
    module = sys.modules.get(os.path.basename(os.path.abspath(folder)))
    return any(os.path.isdir(path) and os.path.samefile(path, folder) for path in getattr(module, "__path__", ()))


def shared_parameters_and_bf16(module: Any) -> None:
    """Adapt fairseq.trainer: what the log names as shared, and attention in bfloat16 on a CPU."""
    shared_parameters(module)
    bf16_training_on_cpus(module)


def shared_parameters(module: Any) -> None:
    """Let the log name only parameters that are shared; fairseq also names every bias that a model does without."""
    # Not a matter of versions: a bias that is left out is None, and fairseq takes all that are None for one parameter.
    stock = module._catalog_shared_params

    @functools.wraps(stock)
    def _catalog_shared_params(root: Any, memo: Any = None, prefix: str = "") -> Any:
        found = stock(root, memo, prefix)  # calls this function for each part, with a memo
        if memo is not None:
            return found
        return [paths for paths in found if module._get_module_by_path(root, paths[0]) is not None]

    module._catalog_shared_params = _catalog_shared_params


def lines_of_any_bytes(module: Any) -> None:
    """Let fairseq-interactive read bytes that are no UTF-8 as U+FFFD, an unknown character, instead of ending."""
    # Not a matter of versions: one stray byte ended a translation of any length.
    files, stock = module.fileinput, module.buffered_read
    module.fileinput = overlay(files, hook_encoded=lambda encoding: files.hook_encoded(encoding, errors="replace"))

    @functools.wraps(stock)
    def buffered_read(input: str, buffer_size: int) -> Any:
        if hasattr(sys.stdin, "reconfigure"):
            sys.stdin.reconfigure(encoding="utf-8", errors="replace")
        return stock(input, buffer_size)

    module.buffered_read = buffered_read


def score_cli(module: Any) -> None:
    """Let fairseq-score --sacrebleu and --sentence-bleu work with the sacreBLEU of today."""
    # sacrebleu 2 wants lists, not open files; fairseq's Scorer has taken a config since 0.10, which
    # --sentence-bleu missed.  sacrebleu is adapted only while the command runs.
    import sacrebleu

    bleu, stock_main = module.bleu, module.cli_main

    def corpus_bleu(hypotheses: Any, references: Any) -> Any:
        return sacrebleu.corpus_bleu(list(hypotheses), [list(lines) for lines in references])

    def scorer(*args: Any) -> Any:
        return bleu.Scorer(args[0] if len(args) == 1 else bleu.BleuConfig(*args))

    def cli_main() -> None:
        sys.modules["sacrebleu"] = overlay(sacrebleu, corpus_bleu=corpus_bleu)
        try:
            stock_main()
        finally:
            sys.modules["sacrebleu"] = sacrebleu

    module.bleu = overlay(bleu, Scorer=scorer)
    module.cli_main = cli_main
