"""What this package reads from the directories of fairseq-preprocess, beside what fairseq reads itself."""

import os
from typing import Any, List, Optional

from fairseq.data.data_utils import infer_language_pair, load_indexed_dataset
from fairseq.utils import split_paths

from bert_fused_plugin.errors import BertFusedError


def data_errors(data: Optional[str], source_lang: Optional[str], target_lang: Optional[str]) -> List[str]:
    """Return a sentence for each reason why *data*, one or several directories, does not fit the language pair."""
    paths = split_paths(data) if data else [""]
    missing = [path for path in paths if not os.path.isdir(path)]
    if missing:
        return [f"data directory {path!r} does not exist; give the --destdir of fairseq-preprocess" for path in missing]
    path = paths[0]
    if source_lang is None or target_lang is None:  # as fairseq does
        names = [name.split(".") for name in os.listdir(path)]
        pairs = sorted({parts[1] for parts in names if len(parts) > 2 and parts[2] in parts[1].split("-")})
        if len(pairs) > 1:
            several = f"several language pairs, {', '.join(pairs)}"
            return [f"data directory {path} has {several}; give --source-lang and --target-lang"]
        source_lang, target_lang = infer_language_pair(path)
    if source_lang is None or target_lang is None:
        files = "files of a language pair, such as train.en-de.en.bin"
        return [f"data directory {path} has no {files}; give the --destdir of fairseq-preprocess, or both languages"]
    dictionaries = sorted(name for name in os.listdir(path) if name.startswith("dict.") and name.endswith(".txt"))
    return [
        f"{flag} {lang}: {path} has no dict.{lang}.txt, only {', '.join(dictionaries) or 'no dictionary'}; "
        "give the languages, in the direction, that the data was binarised for"
        for flag, lang in (("--source-lang", source_lang), ("--target-lang", target_lang))
        if f"dict.{lang}.txt" not in dictionaries
    ]


def directory_of_epoch(flag: str, directories: Optional[str], data: str, epoch: Optional[int]) -> Optional[str]:
    """Return which of the *directories* of *flag* belongs to that of *data* in *epoch*; None: in evaluation.

    Raises:
        BertFusedError: there is not one directory for each data directory.
    """
    if directories is None:
        return None
    ours, theirs = split_paths(directories), split_paths(data)
    if epoch is not None and len(ours) != len(theirs):
        raise BertFusedError(
            f"{flag} {directories} has {len(ours)} directories, but {data} has {len(theirs)}, and each epoch takes the "
            "next one; give as many, in the same order, joined by colons"
        )
    return os.path.expanduser(ours[((epoch or 1) - 1) % len(ours)])  # the shell leaves the ~ of --bert-text=~/DIR


def source_side(directory: str, split: str, task: Any) -> Any:
    """Return the source sentences of *split* in a *directory* of *task*'s languages; None if it has none."""
    source, target = task.cfg.source_lang, task.cfg.target_lang
    pairs = (f"{source}-{target}", f"{target}-{source}")
    files = (os.path.join(directory, f"{split}.{pair}.{source}") for pair in pairs)
    datasets = (load_indexed_dataset(file, task.source_dictionary) for file in files)
    return next((dataset for dataset in datasets if dataset is not None), None)
