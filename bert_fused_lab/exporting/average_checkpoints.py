"""Averages checkpoints; its flags are those of the script of this name in fairseq's repository.

    bert-fused-average --inputs checkpoints --num-epoch-checkpoints 5 --output checkpoints/average.pt

The sums are in double precision.  Settings, integers and the record of BERT come from the first input, which is the
newest checkpoint with --num-*-checkpoints.  The average has no optimizer state and no EMA.
"""

import logging
from argparse import Namespace
from pathlib import Path
from typing import List, Optional, Sequence

import torch

from bert_fused_lab.arguments import given_path, output_errors, parser_of
from bert_fused_lab.exporting.averaging import average_checkpoints, last_checkpoints
from bert_fused_plugin.errors import raise_all
from bert_fused_plugin.files import written_output


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
    state = average_checkpoints(inputs)
    with written_output(args.output) as new:
        torch.save(state, new)
    print(f"wrote {args.output}, the average of {len(inputs)} checkpoints: {' '.join(map(str, inputs))}")


def errors(args: Namespace) -> List[str]:
    """Return a sentence for each problem with the flags."""
    counted = args.num_epoch_checkpoints is not None or args.num_update_checkpoints is not None
    found = []
    if counted and len(args.inputs) != 1:
        found.append(
            "--inputs must be one directory with --num-epoch-checkpoints and --num-update-checkpoints, "
            f"got {len(args.inputs)} inputs; give the --save-dir of training"
        )
    if args.checkpoint_upper_bound is not None and not counted:
        found.append(
            "--checkpoint-upper-bound needs --num-epoch-checkpoints or --num-update-checkpoints; add one of them"
        )
    if args.output.resolve() in map(Path.resolve, args.inputs):
        found.append(
            f"--output {args.output} must not be among the --inputs; leave it out there, or write another file"
        )
    return found + output_errors(output=args.output)


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
