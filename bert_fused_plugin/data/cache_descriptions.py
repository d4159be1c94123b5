"""What a folder of the feature cache says about its BERT, so that nothing is computed twice in silence.

The name of a folder is a hash and the number format.  The description, ``bert.json``, is for people and for the log;
states are found by the name of their folder alone.
"""

import json
from pathlib import Path
from typing import Any, Dict, List, Optional

DESCRIPTION = "bert.json"
BERT_NAME = "--bert-model"  # the entry that says where BERT was loaded from

Description = Dict[str, Any]


def write_description(folder: Path, description: Description) -> None:
    """Write *description* into *folder* if it has none that can be read; one that cannot be written stays without."""
    file = folder / DESCRIPTION
    try:
        if read_description(folder) is None:  # a full disk leaves an empty file
            file.write_text(json.dumps(description, indent=1), encoding="utf-8")
    except OSError:
        return


def sibling_remarks(folder: Path, description: Description) -> List[str]:
    """Return a sentence for each folder beside *folder* that has states of the same weights, and why it is not used.

    One more sentence names the folders that do not say what they hold.

    Args:
        folder: folder of the cache that a run uses.
        description: what `write_description` wrote, or would write, into it.
    """
    remarks, unknown = [], []
    for other in sorted(folder.parent.iterdir()):
        if other == folder or not any(other.glob("*.safetensors")):
            continue
        theirs = read_description(other)
        if theirs is None:
            unknown.append(other.name)
        elif theirs.get("weights") == description.get("weights"):
            differences = "; ".join(_differences(theirs, description)) or "the number format"
            remarks.append(
                f"{other} holds states of the same weights and is not used, since this differs: {differences}"
            )
    if unknown:
        remarks.append(
            f"{folder.parent} also has {', '.join(unknown)}, without {DESCRIPTION}, as an earlier version of this "
            "package wrote them; they are not used, and can be deleted if no earlier version needs them"
        )
    return remarks


def _differences(theirs: Description, ours: Description) -> List[str]:
    """Return name and both values of each entry in which the descriptions differ, and of each such setting of BERT."""
    flat = [{**{k: v for k, v in d.items() if k != "config"}, **d.get("config", {})} for d in (theirs, ours)]
    for entries in flat:
        entries.pop(BERT_NAME, None)  # the same weights may lie elsewhere
    return [
        f"{name} {_text(flat[0], name)} there, {_text(flat[1], name)} here"
        for name in sorted({*flat[0], *flat[1]})
        if flat[0].get(name) != flat[1].get(name)
    ]


def _text(entries: Description, name: str) -> str:
    return json.dumps(entries[name]) if name in entries else "the default"


def read_description(folder: Path) -> Optional[Description]:
    """Return the description in *folder*, or None if it has none that can be read."""
    try:
        description = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return description if isinstance(description, dict) and isinstance(description.get("config", {}), dict) else None
