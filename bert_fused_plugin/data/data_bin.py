"""What is read from the directory of fairseq-preprocess beside what fairseq reads itself."""

import os
from typing import Any, List, Optional

from fairseq.data.data_utils import infer_language_pair
from fairseq.utils import split_paths


def data_errors(data: Optional[str], source_lang: Optional[str], target_lang: Optional[str]) -> List[str]:
    """Return a sentence for each reason why *data*, one or several directories, does not fit the language pair."""
    paths = split_paths(data) if data else [""]
    missing = [path for path in paths if not os.path.isdir(path)]
    if missing:
        return [f"data directory {path!r} does not exist; give the --destdir of fairseq-preprocess" for path in missing]
    path = paths[0]
    if source_lang is None or target_lang is None:  # as fairseq does
        source_lang, target_lang = infer_language_pair(path)
    if source_lang is None or target_lang is None:
        return [
            f"data directory {path!r} has no file whose name tells the languages, such as train.en-de.en.idx; "
            "give --source-lang and --target-lang"
        ]
    found = sorted(name for name in os.listdir(path) if name.startswith("dict.") and name.endswith(".txt"))
    return [
        f"{flag} {lang}: {path} has no dict.{lang}.txt, only {', '.join(found) or 'no dictionary'}; "
        "give the languages, in the direction, that the data was binarised for"
        for flag, lang in (("--source-lang", source_lang), ("--target-lang", target_lang))
        if f"dict.{lang}.txt" not in found
    ]


def read_whole(dataset: Any) -> Any:
    """Return a *dataset* of fairseq, each sentence of which may be asked for from now on."""
    if dataset.supports_prefetch:  # --dataset-impl cached reads nothing by itself
        dataset.prefetch(range(len(dataset)))
    return dataset
