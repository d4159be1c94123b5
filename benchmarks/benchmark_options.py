"""The flags of benchmark.py, and the rules for their values."""

import argparse
import os
from pathlib import Path
from typing import Dict, List, Optional, Sequence

import torch
from benchmark_data import MAX_POSITIONS
from benchmark_start import start_systems
from benchmark_systems import SIZES, System, in_bf16, recurrent_systems, transformer_systems, with_maps

from bert_fused_plugin.errors import raise_all
from bert_fused_plugin.modules.attention_map import ATTENTION_MAPS


def parse_args(arguments: Optional[Sequence[str]], commands: Sequence[str], description: str) -> argparse.Namespace:
    """Return the flags.

    Raises:
        BertFusedError: some flags cannot be used; the message names all of them.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="{" + ",".join(commands) + "}")
    for name in commands:
        command = subparsers.add_parser(name)
        _add_common(command, rounds=2 if name == "memory" else 5)
        if name != "start":
            _add_device(command)
        if name != "memory":
            command.add_argument(
                "--warmup",
                type=int,
                default=1,
                metavar="N",
                help="rounds before the measured ones; default: %(default)s",
            )
        if name in ("train", "decode", "memory"):
            command.add_argument(
                "--sizes", default="iwslt", help=f"model sizes, one of {', '.join(SIZES)}; default: %(default)s"
            )
        if name in ("train", "rnn", "memory"):
            command.add_argument(
                "--batches", type=int, default=4, metavar="N", help="number of batches in a round; default: %(default)s"
            )
        if name in ("decode", "rnn", "cache"):
            sentences = 2000 if name == "cache" else 64
            command.add_argument(
                "--sentences",
                type=int,
                default=sentences,
                metavar="N",
                help="number of sentences; default: %(default)s",
            )
        if name in ("decode", "rnn"):
            _add_decoding(command, batch_sizes=[1, 64] if name == "decode" else [64])
        if name != "cache":
            command.add_argument(
                "--systems",
                nargs="+",
                metavar="NAME",
                help="systems to measure; the others are compared with the first; default: all",
            )
        if name not in ("cache", "start"):
            command.add_argument(
                "--maps",
                nargs="+",
                default=[],
                choices=[name for name in ATTENTION_MAPS if name != "softmax"],
                help="maps of attention to measure too, each as a system NAME-MAP beside NAME; default: none",
            )
    # the values of flags that a subcommand does not have
    absent = argparse.Namespace(systems=None, maps=[], warmup=0, device="cpu", fp16=False)
    options = parser.parse_args(arguments, absent)
    raise_all(_problems(options))
    return options


def _add_common(command: argparse.ArgumentParser, rounds: int) -> None:
    add = command.add_argument
    add(
        "--data",
        default=os.environ.get("DATA"),
        metavar="DIR",
        help="directory of the text; default: the environment variable DATA",
    )
    add("--source-lang", default="en", metavar="LANG", help="source language; default: %(default)s")
    add("--target-lang", default="de", metavar="LANG", help="target language; default: %(default)s")
    add("--bert-model", metavar="NAME_OR_DIR", help="name or directory of BERT; required if a system reads BERT")
    add("--rounds", type=int, default=rounds, metavar="N", help="number of measured rounds; default: %(default)s")
    add(
        "--max-tokens",
        type=int,
        default=4096,
        metavar="N",
        help="largest number of tokens in a batch; default: %(default)s",
    )
    add("--threads", type=int, metavar="N", help="number of threads of torch; default: torch's own")
    add("--seed", type=int, default=1, metavar="N", help="random seed; default: %(default)s")
    add("--json", metavar="FILE", help="file for the figures of each round")


def _add_device(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--device", choices=("cpu", "cuda"), default="cpu", help="device of the models; default: %(default)s")
    add("--fp16", action="store_true", help="use half precision, on a GPU")


def _add_decoding(command: argparse.ArgumentParser, batch_sizes: List[int]) -> None:
    add = command.add_argument
    add(
        "--batch-sizes",
        type=numbers,
        default=batch_sizes,
        metavar="N,N",
        help="numbers of sentences in a batch; default: " + ",".join(map(str, batch_sizes)),
    )
    add(
        "--lengths", type=numbers, default=[0], metavar="N,N",
        help="source lengths in symbols; sources are cut, or continued with other sentences; default: as they are",
    )  # fmt: skip
    add(
        "--max-len-b",
        type=int,
        metavar="N",
        help="number of symbols to write; default: --lengths, or the references' mean",
    )


def numbers(text: str) -> List[int]:
    return [int(number) for number in text.split(",")]


def splits_of(command: str) -> List[str]:
    return ["train", "test"] if command in ("decode", "rnn") else ["train"]


def all_systems(options: argparse.Namespace) -> Dict[str, System]:
    if options.command == "cache":
        return {}
    if options.command == "start":
        return dict(start_systems(options.bert_model))
    if options.command == "rnn":
        return with_maps(recurrent_systems(), options.maps)
    if options.command == "decode":
        systems = with_maps(transformer_systems(options.sizes, options.bert_model, ["1.0"]), options.maps)
        return {**systems, **in_bf16(systems)}
    return with_maps(transformer_systems(options.sizes, options.bert_model, ["1.0", "0.5", "0"]), options.maps)


def chosen_systems(options: argparse.Namespace) -> Dict[str, System]:
    systems = all_systems(options)
    return {name: systems[name] for name in options.systems or systems}


def reads_bert(options: argparse.Namespace) -> bool:
    return options.command == "cache" or any(system.reads_bert for system in chosen_systems(options).values())


def _problems(options: argparse.Namespace) -> List[str]:
    """Return a sentence for each flag that cannot be used."""
    errors = _data_problems(options) + _system_problems(options) + _number_problems(options)
    on_cpu = options.device == "cpu"
    if not on_cpu and not torch.cuda.is_available():
        errors.append("--device cuda: torch sees no GPU; leave it out to measure on the CPU")
    if options.fp16 and on_cpu:
        errors.append("--fp16 is for --device cuda; leave it out")
    if options.fp16 and options.command == "cache":
        errors.append("--fp16 is not for cache, whose states are computed in full precision; leave it out")
    if options.command in ("memory", "rnn") and on_cpu and not Path("/proc/self/clear_refs").exists():
        errors.append("the memory on the CPU is read from Linux's /proc, which does not exist here; use --device cuda")
    if options.json and not Path(options.json).absolute().parent.is_dir():
        errors.append(f"--json {options.json}: its directory does not exist; make it first")
    if options.json and Path(options.json).is_dir():
        errors.append(f"--json {options.json} is a directory; give a file's name")
    return errors


def _data_problems(options: argparse.Namespace) -> List[str]:
    if not options.data:
        return ["--data DIR, or the environment variable DATA, is required: the directory with train.en and so on"]
    if not Path(options.data).is_dir():
        return [f"--data {options.data}: no such directory"]
    langs = (options.source_lang, options.target_lang)
    names = [f"{split}.{lang}" for split in splits_of(options.command) for lang in langs]
    missing = [name for name in names if not (Path(options.data) / name).is_file()]
    if not missing:
        return []
    return [
        f"--data {options.data} has no {', '.join(missing)}; --source-lang and --target-lang must be the file endings"
    ]


def _system_problems(options: argparse.Namespace) -> List[str]:
    if "sizes" in options and options.sizes not in SIZES:
        return [f"--sizes must be one of {', '.join(SIZES)}, got {options.sizes!r}"]
    known = all_systems(options)
    unknown = sorted(set(options.systems or []) - set(known))
    if unknown:
        return [f"--systems must be among {', '.join(known)}, got {', '.join(unknown)}"]
    if reads_bert(options) and options.bert_model is None:
        return ["--bert-model is required here: give a local directory or a name on the Hugging Face hub"]
    return []


def _number_problems(options: argparse.Namespace) -> List[str]:
    errors = []
    for name, (low, high) in LIMITS.items():
        given = vars(options).get(name)
        values = given if isinstance(given, list) else [] if given is None else [given]
        wrong = [value for value in values if value < low or (high and value > high)]
        if wrong:
            rule = f"be in [{low}, {high}]" if high else f"be at least {low}"
            errors.append(f"--{name.replace('_', '-')} must {rule}, got {wrong[0]}")
    return errors


LIMITS = {
    "rounds": (1, None), "warmup": (0, None), "threads": (1, None), "max_tokens": (1, None), "batches": (1, None),
    "sentences": (1, None), "batch_sizes": (1, None), "lengths": (0, MAX_POSITIONS - 2),
    "max_len_b": (1, MAX_POSITIONS - 2), "seed": (0, 2**32 - 1),
}  # fmt: skip
