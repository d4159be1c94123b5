"""Builds, shows, verifies and prunes the directory of --bert-cache.

    bert-fused-cache build DATA --arch ARCH --bert-model BERT --bert-cache DIR [--part K/N] [flags of the training]
    bert-fused-cache info DIR
    bert-fused-cache verify DIR
    bert-fused-cache prune DIR --remove FOLDER --yes

build computes BERT's states of all sentences of a training before the training, as a job of its own; it takes the
command line of the training.  With --part K/N it computes one of N shares, so that N jobs build the cache together.
"""

import argparse
import sys
from argparse import Namespace
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

from tqdm import tqdm

from bert_fused_plugin.commands.cache_build import build, parse_build
from bert_fused_plugin.data.cache_descriptions import BERT_NAME, Description
from bert_fused_plugin.data.cache_inventory import (
    Inventory,
    cache_folders,
    folder_of,
    is_at_work,
    left_by_killed_processes,
    remove,
    segments_of,
    take_inventory,
    verify_segments,
)


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Do what the command line says; the exit status is 1 if a segment is damaged or cannot be read."""
    args = parse_args(arguments)
    if args.command == "build":
        build(args)
    elif args.command == "info":
        info(args.directory)
    elif args.command == "verify":
        sys.exit(0 if verify(args.directory) else 1)
    else:
        prune(args.directory, args.remove, args.keep, yes=args.yes)


def parse_args(argv: Optional[Sequence[str]] = None) -> Namespace:
    """Return the settings of the command line."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["build"]:
        return parse_build(words[1:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="compute BERT's states of all sentences of a training", add_help=False)
    texts = {
        "info": "show which BERTs the directory has states of, and how many",
        "verify": "read all states, and remove the segments that are damaged",
        "prune": "remove the states of BERTs, and what killed processes have left",
    }
    for name, text in texts.items():
        command = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        command.add_argument("directory", type=Path, metavar="DIR", help="directory of --bert-cache")
    which = command.add_mutually_exclusive_group()
    which.add_argument(
        "--remove", action="append", default=[], metavar="FOLDER",
        help="folder with states that are not wanted any more, or the beginning of its name; may be repeated",
    )  # fmt: skip
    which.add_argument(
        "--keep", action="append", default=[], metavar="FOLDER",
        help="folder with states that are wanted, or the beginning of its name: all other folders are removed; may be "
        "repeated",
    )  # fmt: skip
    command.add_argument(
        "--yes", action="store_true",
        help="remove it; without this flag, the command only says what it would remove, and how large it is",
    )  # fmt: skip
    return parser.parse_args(words)


def info(directory: Path) -> None:
    """Print what the *directory* holds, folder by folder."""
    for folder in cache_folders(directory):
        found = take_inventory(folder)
        print(folder)
        for line in (*_bert_lines(found.description), *_content_lines(found)):
            print(f"  {line}")


def _bert_lines(description: Optional[Description]) -> List[str]:
    if description is None:
        return ["BERT: the folder does not say which one"]
    name = description.get(BERT_NAME, "of a name that the folder does not say")
    lines = [f"BERT: {name}, of the kind {description.get('model_type')}, layers {description.get('layers')}"]
    settings = description.get("config", {})
    if settings:
        lines.append("settings other than the defaults of that kind: " + ", ".join(
            f"{setting} {value}" for setting, value in sorted(settings.items())
        ))  # fmt: skip
    return lines


def _content_lines(found: Inventory) -> List[str]:
    lines = [
        f"{_count(found.sentences, 'sentence')} in {_count(found.segments, 'segment')}, {_size(found.size)}",
        f"verified segments: {found.verified:,} of {found.segments:,}; index: {_count(found.indexes, 'file')}",
    ]
    if found.unfinished:
        lines.append(f"{_count(len(found.unfinished), 'unfinished file')}, which a process is writing, or has left")
    return lines


def verify(directory: Path) -> bool:
    """Read all segments, remove those that are damaged, and return whether all are sound."""
    folders = cache_folders(directory)
    total = sum(file.stat().st_size for folder in folders for file in segments_of(folder))
    bad: Dict[Path, Optional[OSError]] = {}
    with tqdm(total=total, desc="verified", unit="B", unit_scale=True, disable=None) as bar:
        read = 0

        def advance(size: int) -> None:
            nonlocal read
            tenths, read = 10 * read // max(total, 1), read + size
            bar.update(size)
            if bar.disable and 10 * read // total > tenths:
                print(f"{100 * read // total} % of {_size(total)}", flush=True)

        for folder in folders:
            bad.update(verify_segments(folder, advance))
    for file, error in bad.items():
        _report_bad(file, error)
    unreadable = sum(error is not None for error in bad.values())
    also = f", and {unreadable:,} that cannot be read" if unreadable else ""
    print(
        f"damaged segments: {len(bad) - unreadable:,}{also}; {_size(total)} have been read in "
        f"{_count(len(folders), 'folder')}"
    )
    return not bad


def _report_bad(file: Path, error: Optional[OSError]) -> None:
    """Print that a segment cannot be read because of *error*; or, without one, remove it, since it is damaged."""
    if error is not None:
        print(f"{file} cannot be read ({error}) and stays; remove it if this does not pass")
        return
    try:
        file.unlink(missing_ok=True)
        print(f"{file} is damaged: it is removed, and its sentences are computed anew")
    except OSError as refusal:
        print(f"{file} is damaged and cannot be removed ({refusal})")


def prune(directory: Path, unwanted: Sequence[str], wanted: Sequence[str], *, yes: bool) -> None:
    """Remove folders of *directory*, and what killed processes have left, or say what would be removed.

    Args:
        directory: the directory of ``--bert-cache``.
        unwanted: names of the folders to remove.
        wanted: names of the folders to keep, if all others are to be removed.
        yes: whether to remove.
    """
    folders = cache_folders(directory)
    chosen = [folder_of(name, folders) for name in unwanted]
    if wanted:
        kept = [folder_of(name, folders) for name in wanted]
        places = {folder.resolve() for folder in kept}  # a folder may be a link to another one
        chosen = [folder for folder in folders if folder.resolve() not in places]
    found: List[Tuple[Path, int]] = []
    for folder in folders:
        inventory = take_inventory(folder)
        if folder not in chosen:
            found += [(file, file.stat().st_size) for file in left_by_killed_processes(inventory)]
        elif is_at_work(folder):
            print(f"{folder} stays, since a process computes states for it now")
        else:
            found.append((folder, inventory.size))
    for path, size in found:
        print(f"{'removed' if yes else 'would be removed'}: {path}, {_size(size)}")
        for other in remove(path) if yes else []:
            print(f"{other} stays, since the cache has not written it")
    if not found:
        print("there is nothing to remove; --remove FOLDER names a folder that is not wanted, as `info` shows it")
    elif not yes:
        print("nothing has been removed; --yes removes it")


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def _size(size: int) -> str:
    return f"{size / 2**30:,.2f} GiB" if size >= 2**30 else f"{size / 2**20:,.2f} MiB"
