"""What the directory of ``--bert-cache`` holds: a folder for each BERT, and in it one for each data set.

The name of a folder says what it is for.  ``bert.json`` says the same for people and for the log.
"""

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional

from bert_fused_plugin.data.cached_states import NUMBER_FORMATS
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.files import written_whole

BERT_NAME = "--bert-model"  # the entry of a description that says where BERT was loaded from

_DESCRIPTION = "bert.json"
_NAME = re.compile(rf"[0-9a-f]{{32}}-({'|'.join(NUMBER_FORMATS)})")

Description = Dict[str, Any]


def folders_of_berts(directory: Path) -> List[Path]:
    """Return the folders of all BERTs in *directory*.

    Raises:
        BertFusedError: there are none.
    """
    found = []
    if directory.is_dir():
        found = sorted(path for path in directory.iterdir() if path.is_dir() and _NAME.fullmatch(path.name))
    if not found:
        raise BertFusedError(
            f"{directory} must be a directory that --bert-cache has filled, and it holds no states of any BERT; give "
            "the directory of --bert-cache"
        )
    return found


def write_description(folder: Path, description: Description) -> None:
    """Write *description* into *folder*; a folder that cannot be written stays without."""
    with suppress(OSError), written_whole(folder / _DESCRIPTION) as new:
        new.write_text(json.dumps(description, indent=1), encoding="utf-8")


def read_description(folder: Path) -> Optional[Description]:
    """Return the description in *folder*, or None if it has none that can be read."""
    with suppress(OSError, ValueError):
        description = json.loads((folder / _DESCRIPTION).read_text(encoding="utf-8"))
        if isinstance(description, dict):
            return description
    return None


def why_not_used(folder: Path, description: Description) -> Iterator[str]:
    """Yield a sentence for each folder beside *folder* that has states of the same weights, and why it is not used."""
    for other in folders_of_berts(folder.parent):
        theirs = read_description(other)
        if other == folder or theirs is None or theirs.get("weights") != description.get("weights"):
            continue
        differences = [
            f"{name} {json.dumps(theirs.get(name))} there, {json.dumps(value)} here"
            for name, value in description.items()
            if name != BERT_NAME and theirs.get(name) != value  # the same weights may lie elsewhere
        ]
        if differences:
            why = "; ".join(differences)
            yield f"{other} holds states of the same weights and is not used, since this differs: {why}"
