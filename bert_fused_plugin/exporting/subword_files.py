"""The subword tool as a part of an exported model's directory: fairseq's ``--bpe`` and the files that it needs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from bert_fused_plugin.models.hub import GPT2_FILES

Files = List[Tuple[Path, str]]


class _Tool(NamedTuple):
    """A kind of fairseq's ``--bpe``.

    Attributes:
        files: for each setting that names a file, the name of that file in the directory.
        flag: our flag that gives the file; None if the files are always those of the training.
    """

    files: Dict[str, str]
    flag: Optional[str] = None


# fairseq's hub expects the files of these names, except those of gpt2, which `bert_fused_plugin.models.hub` finds
_TOOLS = {
    "subword_nmt": _Tool({"bpe_codes": "bpecodes"}, "--codes"),
    "sentencepiece": _Tool({"sentencepiece_model": "sentencepiece.bpe.model"}, "--sentencepiece-model"),
    "gpt2": _Tool(GPT2_FILES),
    "hf_byte_bpe": _Tool({"bpe_vocab": "vocab.json", "bpe_merges": "merges.txt"}),
}
FLAGS = [tool.flag for tool in _TOOLS.values() if tool.flag is not None]


@dataclass(frozen=True)
class Subwords:
    """The tools that turn raw text into the model's tokens.

    Attributes:
        codes: file of subword-nmt's codes.
        sentencepiece_model: file of sentencepiece's model.
        tokenizer: settings of fairseq's ``--tokenizer``, with its name as ``_name``; default: those of the checkpoint.
    """

    codes: Optional[Path] = None
    sentencepiece_model: Optional[Path] = None
    tokenizer: Optional[Dict[str, Any]] = None


def choose_tool(
    trained: Optional[Dict[str, Any]], given: Subwords, errors: List[str]
) -> Tuple[Optional[Dict[str, Any]], Files]:
    """Return the settings of ``--bpe`` and the files for the directory; the default is what the training used."""
    named = {"subword_nmt": given.codes, "sentencepiece": given.sentencepiece_model}
    kind = next((name for name, path in named.items() if path is not None), trained["_name"] if trained else None)
    if kind not in _TOOLS:
        return trained, []
    tool, settings = _TOOLS[kind], dict(trained) if trained and trained["_name"] == kind else {}
    settings["_name"] = kind
    files: Files = []
    for setting, name in tool.files.items():
        path = named.get(kind) or settings[setting]
        if "://" in str(path):  # fairseq downloads it
            continue
        files.append((Path(path), name))
        if not Path(path).is_file():
            what = tool.flag or f"--bpe {kind} --{setting.replace('_', '-')}"
            errors.append(f"{what} {path}: no such file; give the one that the training data was split with")
        # fairseq's hub writes the path of the file here; otherwise it says that the file of this name is not found.
        settings[setting] = f"./{name}" if tool.flag is None else f"{name}, which belongs into the model's directory,"
    return settings, files


def name_files(settings: Dict[str, Any], bpe: Optional[Dict[str, Any]]) -> None:
    """Let *settings*, the flags of a model, name the files as *bpe* does: the model's bridge may read them, too."""
    if bpe is not None and settings.get("bpe") == bpe["_name"] and bpe["_name"] in _TOOLS:
        settings.update({setting: bpe[setting] for setting in _TOOLS[bpe["_name"]].files if setting in settings})


def tool_name(bpe: Dict[str, Any], files: Files) -> str:
    """Return the flag and the files of the tool, for messages."""
    return f"{_TOOLS[bpe['_name']].flag or '--bpe ' + bpe['_name']} {' '.join(str(path) for path, _ in files)}"


def readme_flags(bpe: Optional[Dict[str, Any]]) -> List[str]:
    """Return the flags of fairseq-interactive for the tool in the directory DIR."""
    if bpe is None or bpe["_name"] not in _TOOLS:
        return []
    files = {setting: name for setting, name in _TOOLS[bpe["_name"]].files.items() if "://" not in str(bpe[setting])}
    return [f"--bpe {bpe['_name']}", *(f"--{setting.replace('_', '-')} DIR/{name}" for setting, name in files.items())]
