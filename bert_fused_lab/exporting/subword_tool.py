"""The subword tool as a part of an exported model's directory: fairseq's ``--bpe`` and the files that it needs.

With other codes than those of the training data, or another sentencepiece model, nothing fails: the model gets pieces
that it does not know, or knows from other words, and translates badly.  So the tool must restore known subwords.
"""

import logging
from collections import Counter
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

from fairseq.data.encoders import build_bpe

from bert_fused_plugin.data.data_bin import source_side
from bert_fused_plugin.data.subwords import join_sentencepiece
from bert_fused_plugin.data.tags import language_tags
from bert_fused_plugin.errors import BertFusedError, flag_name
from bert_fused_plugin.models.hub import BYTE_BPE_FILES, GPT2_FILES

logger = logging.getLogger(__name__)

Bpe = Optional[Dict[str, Any]]  # fairseq's settings of --bpe
Files = Dict[str, Tuple[Path, str]]  # by setting, what is copied into the directory, and its name there

# Our flags that give a file; the files of other kinds of --bpe are those of the training.
FLAGS = {"subword_nmt": "--codes", "sentencepiece": "--sentencepiece-model"}

# For each kind of --bpe, and each setting of it that names a file, the name of that file in the directory.  fairseq's
# hub expects these names, except those that `bert_fused_plugin.models.hub` finds.
_FILES = {
    "subword_nmt": {"bpe_codes": "bpecodes"},
    "fastbpe": {"bpe_codes": "bpecodes"},
    "sentencepiece": {"sentencepiece_model": "sentencepiece.bpe.model"},
    "gpt2": GPT2_FILES,
    "byte_bpe": BYTE_BPE_FILES,
    "hf_byte_bpe": {"bpe_vocab": "vocab.json", "bpe_merges": "merges.txt"},
}
_ENOUGH = 0.9  # the right file restores nearly all, but not what subword-nmt's --vocabulary has split further
_MOST_LINES = 1_000


def choose_tool(trained: Bpe, subword_files: Dict[str, Path], errors: List[str]) -> Tuple[Bpe, Files]:
    """Return the settings of ``--bpe`` and the files for the directory; *errors* get a sentence for each missing file.

    The tool is the one that *subword_files* names, and by default that of the training, *trained*.
    """
    kind = next(iter(subword_files), trained["_name"] if trained else None)
    if kind is None:
        return None, {}
    settings = dict(trained) if trained and trained["_name"] == kind else {"_name": kind}
    files: Files = {}
    for setting, name in _FILES.get(kind, {}).items():
        path = subword_files.get(kind) or settings[setting]
        if "://" in str(path):  # fairseq downloads it
            continue
        files[setting] = (Path(path), name)
        if not Path(path).is_file():
            what = FLAGS.get(kind, f"--bpe {kind} {flag_name(setting)}")
            errors.append(f"{what} {path}: no such file; give the one that the training data was split with")
        # fairseq's hub writes the path of the file here; otherwise it says that the file of this name is not found.
        settings[setting] = f"{name}, which belongs into the model's directory," if kind in FLAGS else f"./{name}"
    for setting, value in settings.items():
        if setting not in {"_name", *files} and Path(str(value)).is_file():
            what = f"--bpe {kind} {flag_name(setting)} {value}"
            errors.append(f"{what}: an exported model cannot have this file; translate with the checkpoint itself")
    return settings, files


def check_tool(bpe: Any, files: Files, task: Any, data: str) -> None:
    """Let fairseq's tool of the settings *bpe* split sentences of *task* and its first directory *data*.

    Raises:
        BertFusedError: The file cannot be read, or it splits the sentences otherwise.
    """
    tool = f"{FLAGS.get(bpe._name, f'--bpe {bpe._name}')} {' '.join(str(path) for path, _ in files.values())}"
    remedy = "give the file that the training data was split with"
    try:
        encoder = build_bpe(bpe)
    except (Exception, SystemExit) as error:  # subword-nmt ends the program at a line that is no code
        reason = " ".join(str(error).split())[:200]
        raise BertFusedError(f"{tool} cannot be read as what the flag is for ({reason}); {remedy}") from error
    known = _known_sentences(data, task)
    tags = {line[0] for line in known if line} & {*language_tags(task.source_dictionary)}
    cut = sorted(tag for tag in tags if tag not in encoder.encode(tag).split())
    if cut:
        logger.warning(
            f"{tool} splits the tags at the beginning of the source sentences, such as {cut[0]}, so the exported model "
            "translates only text that is split already; give such text, as symbols, to its hub's binarize"
        )
        known = [[symbol for symbol in line if symbol not in cut] for line in known]
    pieces = bpe._name == "sentencepiece"
    texts = [join_sentencepiece(line) if pieces else encoder.decode(" ".join(line)) for line in known]
    split = [encoder.encode(text).split() for text in texts]
    if _likeness(known, split) < _ENOUGH:
        example = next((line, new) for line, new in zip(known, split) if line != new)
        begin = max(0, next(i for i, (one, other) in enumerate(zip_longest(*example)) if one != other) - 3)
        one, other = (" ".join(line[begin : begin + 8]) for line in example)
        raise BertFusedError(
            f"{tool} restores {_likeness(known, split):.1%} of the source sentences of the data, and at least "
            f"{_ENOUGH:.0%} are needed: {one!r} becomes {other!r}, so the model would get other pieces than in "
            f"training; {remedy}"
        )


def _known_sentences(data: str, task: Any) -> List[List[str]]:
    """Return source sentences without unknown words, as symbols, of the validation or the test set in *data*, or none.

    The training set is left out, because its subwords may have been drawn at random.
    """
    dictionary = task.source_dictionary
    for split in ("valid", "test"):
        text = source_side(data, split, task)
        if text is not None:
            rows = (text[index].tolist() for index in range(len(text)))
            known = (row for row in rows if dictionary.unk() not in row)
            return [[dictionary[i] for i in row if i != dictionary.eos()] for row in islice(known, _MOST_LINES)]
    return []


def _likeness(known: Sequence[Sequence[str]], split: Sequence[Sequence[str]]) -> float:
    """Return the share of symbols that both have, line by line."""
    same = sum(sum((Counter(one) & Counter(other)).values()) for one, other in zip(known, split))
    return same / (sum(max(len(one), len(other)) for one, other in zip(known, split)) or 1) if known else 1.0
