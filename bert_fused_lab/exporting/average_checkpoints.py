"""Averages checkpoints; its flags are those of the script of this name in fairseq's repository.

    bert-fused-average --inputs checkpoints --num-epoch-checkpoints 5 --output checkpoints/average.pt

The sums are in double precision.  Settings, integers and the record of BERT come from the first input, which is the
newest checkpoint with --num-*-checkpoints.  The average has no optimizer state and no EMA.
"""

import logging
from argparse import Namespace
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

import torch
from fairseq.checkpoint_utils import checkpoint_paths
from torch import Tensor

from bert_fused_lab.arguments import given_path, output_errors, parser_of
from bert_fused_lab.finished import without_training_state
from bert_fused_lab.output import written_output
from bert_fused_plugin.checkpoints.reading import read_checkpoint
from bert_fused_plugin.checkpoints.record import RECORDS, as_given, differences, read_json, settings_of
from bert_fused_plugin.errors import BertFusedError, flag_name, raise_all

_LR_FACTOR = "encoder.bert.lr_factor"  # the scale of a fine-tuned BERT's weights
_SCALED = "encoder.bert.scaled"  # those of them that it scales


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Average the checkpoints, and print their names."""
    logging.getLogger().setLevel(logging.WARNING)  # fairseq sets INFO when it is imported
    args = parse_args(arguments)
    raise_all(errors(args))
    by_updates = args.num_update_checkpoints is not None
    count = args.num_update_checkpoints if by_updates else args.num_epoch_checkpoints
    inputs = args.inputs
    if count is not None:
        inputs = last_checkpoints(inputs[0], count, by_updates=by_updates, upper_bound=args.checkpoint_upper_bound)
    if args.output.resolve() in map(Path.resolve, inputs):
        raise BertFusedError(f"--output {args.output} is one of the checkpoints to average; write another file")
    state = average_checkpoints(inputs)
    with written_output(args.output) as new:
        torch.save(state, new)
    print(f"wrote {args.output}, the average of {len(inputs)} checkpoints: {' '.join(map(str, inputs))}")


def errors(args: Namespace) -> List[str]:
    """Return a sentence for each problem with the flags."""
    counted = args.num_epoch_checkpoints is not None or args.num_update_checkpoints is not None
    problems = []
    if counted and len(args.inputs) != 1:
        problems.append(
            "--inputs must be one directory with --num-epoch-checkpoints and --num-update-checkpoints, "
            f"got {len(args.inputs)} inputs; give the --save-dir of training"
        )
    if args.checkpoint_upper_bound is not None and not counted:
        problems.append(
            "--checkpoint-upper-bound needs --num-epoch-checkpoints or --num-update-checkpoints; add one of them"
        )
    return problems + output_errors(output=args.output)


def parse_args(argv: Optional[Sequence[str]] = None) -> Namespace:
    """Return the settings of the command line."""
    parser = parser_of(__doc__)
    add = parser.add_argument
    add("--inputs", type=given_path, nargs="+", required=True, help="checkpoints, or one directory with checkpoints")
    add("--output", type=given_path, required=True, metavar="FILE", help="checkpoint to write")
    number = parser.add_mutually_exclusive_group().add_argument
    number("--num-epoch-checkpoints", type=int, metavar="N", help="average the last N checkpointEPOCH.pt")
    number("--num-update-checkpoints", type=int, metavar="N", help="average the last N checkpoint_EPOCH_UPDATE.pt")
    add("--checkpoint-upper-bound", type=int, metavar="N", help="last epoch or update whose checkpoint is averaged")
    return parser.parse_args(argv)


def average_checkpoints(paths: Sequence[Path]) -> Dict[str, Any]:
    """Return a checkpoint whose floating-point tensors are the means of those in *paths*, at least one.

    The mean often translates better than each of them (Vaswani et al. 2017, section 6.1).
    Sums are computed in double precision; means of half-precision tensors are in single precision, as in fairseq's
    own script. Settings, integers and the records of BERT and of the settings come from the first checkpoint. The
    state that only training needs is left out, and the names of the files are kept.

    Raises:
        BertFusedError: One cannot be read, or they are not of the same model.
    """
    result = read_checkpoint(paths[0])
    first: Dict[str, Tensor] = result["model"]
    fixed = (*RECORDS, _LR_FACTOR, _SCALED)
    sums = {key: value.double() for key, value in first.items() if value.is_floating_point() and key not in fixed}
    for path in paths[1:]:
        other: Dict[str, Tensor] = read_checkpoint(path)["model"]
        difference = _difference(first, other)
        if difference:
            raise BertFusedError(f"{path} and {paths[0]} {difference}; average checkpoints of one training")
        for key in sums:
            sums[key] += other[key].double()
    means: Dict[str, Tensor] = {}
    shared: Dict[Any, Tensor] = {}  # what shared memory in the first checkpoint shares it again
    for key, total in sums.items():
        value = first[key]
        dtype = value.dtype if value.dtype in (torch.float32, torch.float64) else torch.float32
        mean = (total / len(paths)).to(dtype)
        twin = shared.setdefault((value.data_ptr(), value.shape, value.stride()), mean)
        means[key] = twin if torch.equal(twin, mean) else mean
    average = without_training_state({**result, "model": {**first, **means}})
    average["extra_state"]["averaged"] = [path.name for path in paths]
    return average


def last_checkpoints(
    directory: Path, count: int, *, by_updates: bool = False, upper_bound: Optional[int] = None
) -> List[Path]:
    """Return the last *count* checkpoints in the ``--save-dir`` *directory*, the newest first.

    Args:
        by_updates: whether to take the checkpoints of ``--save-interval-updates`` and not those of epochs.
        upper_bound: number of the last epoch or update that may be taken.

    Raises:
        BertFusedError: There are fewer checkpoints.
    """
    kind, name = ("update", r"checkpoint_\d+_(\d+)\.pt") if by_updates else ("epoch", r"checkpoint(\d+)\.pt")
    flag = f"--num-{kind}-checkpoints"
    if count < 1:
        raise BertFusedError(f"{flag} must be at least 1, got {count}; give the number of checkpoints to average")
    if not directory.is_dir():
        raise BertFusedError(f"--inputs {directory} must be one directory with {flag}; give the --save-dir of training")
    numbered = checkpoint_paths(str(directory), name, keep_match=True)
    checkpoints = [Path(path) for path, number in numbered if upper_bound is None or number <= upper_bound]
    if len(checkpoints) < count:
        bound = "" if upper_bound is None else f" up to --checkpoint-upper-bound {upper_bound}"
        raise BertFusedError(
            f"{flag} {count}: {directory} has {len(checkpoints)} {kind} checkpoints{bound}; ask for fewer, or give "
            "other --inputs"
        )
    return checkpoints[:count]


def _difference(first: Dict[str, Tensor], other: Dict[str, Tensor]) -> str:
    """Return why the models *first* and *other* cannot be averaged, or an empty text."""
    sizes = [{key: key in RECORDS or tuple(state[key].shape) for key in state} for state in (other, first)]
    keys = sorted({key for key, _ in sizes[0].items() ^ sizes[1].items()})
    if keys:
        shapes = " and ".join(str(size.get(keys[0], "none")) for size in sizes)
        return f"are of different models: {len(keys)} parameters differ in size, such as {keys[0]} ({shapes})"
    diffs = differences(_identity(other), _identity(first))
    return f"differ in {'; '.join(f'{name} ({one} and {another})' for name, one, another in diffs)}" if diffs else ""


def _identity(state_dict: Dict[str, Tensor]) -> Dict[str, Any]:
    """Return what models that are averaged have in common, under names for messages, as far as it is known."""
    bert, settings = (read_json(state_dict, key) for key in RECORDS)
    of_flags = {**settings.get("computed", {}), **bert.get("settings", {})}
    identity = {flag_name(name): as_given(name, value) for name, value in of_flags.items()}
    identity.update((f"the dictionary of the {side}", d["hash"]) for side, d in settings.get("symbols", {}).items())
    of_bert = {part: bert[part] for part in ("weights_in_layers", "tokenizer") if part in bert}
    of_configuration = settings_of(bert.get("configuration", ""))
    identity.update((f"BERT's {part}", value) for part, value in (*of_bert.items(), *of_configuration.items()))
    if _LR_FACTOR in state_dict:  # rounded, since EMA takes means of them
        identity["--bert-lr-factor"] = f"{float(state_dict[_LR_FACTOR]):.2g}"
    if _SCALED in state_dict:  # not of an imported checkpoint
        identity["--bert-finetune-layers, in parameters"] = round(float(state_dict[_SCALED].sum()))
    return identity
