"""Writes a plain transformer that began as an imported model as a directory of transformers again.

    bert-fused-export hf control/checkpoint_best.pt exported --imported imported

The weights are those of the checkpoint; all other files are those of the model that ``bert-fused-import hf`` has read,
and so are the embeddings of the symbols that ``--vocabulary-of`` left out there.  transformers, and what converts its
models, such as CTranslate2, then translate with the new directory.
"""

import json
import shutil
from argparse import Namespace
from pathlib import Path
from typing import Dict, Optional, Sequence

import torch
from fairseq.data import Dictionary
from fairseq.data.data_utils import infer_language_pair
from safetensors.torch import save_file
from torch import Tensor
from transformers import AutoConfig, AutoModelForSeq2SeqLM, AutoTokenizer

from bert_fused_lab.arguments import given_path, parser_of
from bert_fused_lab.importing.hf_models import EMBEDDINGS, SIDES, model_flags, to_fairseq, to_hf
from bert_fused_lab.importing.hf_vocabulary import numbers_of, read_vocabulary
from bert_fused_lab.importing.import_hf import ORIGINAL, SETTINGS, load
from bert_fused_lab.output import directory_errors, written_output
from bert_fused_plugin.checkpoints.reading import read_checkpoint, saved_flags
from bert_fused_plugin.errors import BertFusedError, flag_name, raise_all


def run(args: Namespace) -> None:
    """Write the directory, and see that transformers reads the checkpoint's weights from it.

    Raises:
        BertFusedError: The checkpoint is of another model than the imported one, or transformers has no such model.
    """
    raise_all(directory_errors("OUT", args.output))
    checkpoint = read_checkpoint(args.checkpoint)
    state, flags = checkpoint["model"], saved_flags(checkpoint, "checkpoint", "model")
    imported = _imported(args.imported, args.checkpoint, flags.get("finetune_from_model"))
    original, languages = str(imported / ORIGINAL), infer_language_pair(str(imported))
    config = AutoConfig.from_pretrained(original)
    vocabulary = read_vocabulary(original, AutoTokenizer.from_pretrained(original), config, languages)
    dictionaries = [Dictionary.load(str(imported / f"dict.{language}.txt")) for language in languages]
    ids = dict(zip(SIDES, map(numbers_of, dictionaries, vocabulary.symbols)))
    sizes = [len(state.get(f"{side}.embed_tokens.weight", ())) for side in SIDES]
    expected = model_flags(original, config)
    differing = [flag_name(name) for name in expected if expected[name] != flags.get(name, expected[name])]
    differing += [name for name in state if ".bert_" in name][:1]
    if sizes != list(map(len, dictionaries)):
        differing.append("its numbers of symbols")
    if differing:
        raise BertFusedError(
            f"{args.checkpoint} differs from the model in {imported} in {differing[0]}; give a plain transformer that "
            "began as this model, and was trained with the flags and dictionaries of the README there"
        )
    is_whole = all({*names} <= {*d.symbols} for names, d in zip(vocabulary.symbols, dictionaries))
    whole = {} if is_whole else _weights_of(imported)
    with written_output(args.output, "OUT") as new:
        shutil.copytree(original, new)
        settings = json.loads((new / "config.json").read_text(encoding="utf-8"))
        settings["torch_dtype"] = "float32"  # half precision would round what the training has changed
        settings.pop("dtype", None)
        (new / "config.json").write_text(json.dumps(settings, indent=2), encoding="utf-8")
        save_file(to_hf(state, config, ids, whole), str(new / "model.safetensors"), metadata={"format": "pt"})
        read = to_fairseq(AutoModelForSeq2SeqLM.from_pretrained(new).state_dict(), config, ids)
        wrong = [name for name in read if not _is_same(name, read[name], state.get(name))]
        if wrong:
            raise BertFusedError(
                f"{args.checkpoint}: transformers would read another {wrong[0]}; train with the flags of the README in "
                f"{imported}, such as --share-all-embeddings"
            )
    print(f"wrote {args.output}, a model of transformers")


def _imported(directory: Optional[Path], checkpoint: Path, began_from: Optional[str]) -> Path:
    """Return the import: *directory*, or where the *checkpoint* or the start of its training lies."""
    places = (checkpoint.parent, Path(began_from or checkpoint).parent) if directory is None else (directory,)
    for place in places:
        if (place / ORIGINAL).is_dir():
            return place
    raise BertFusedError(
        f"{places[-1]} is no import; give the directory that bert-fused-import hf wrote: --imported DIR"
    )


def _weights_of(imported: Path) -> Dict[str, Tensor]:
    """Return the weights of the model that was *imported*, from where it was then."""
    model = json.loads((imported / SETTINGS).read_text(encoding="utf-8"))["model"]
    weights: Dict[str, Tensor] = load(AutoModelForSeq2SeqLM, model, torch_dtype=torch.float32).state_dict()
    return weights


def _is_same(name: str, read: Tensor, saved: Optional[Tensor]) -> bool:
    """Return whether transformers has *read* what was *saved*, except for rows that no sentence has."""
    if saved is None or read.shape != saved.shape:
        return False
    first = 2 if name in EMBEDDINGS or ".embed_" in name else 0
    return torch.allclose(read[first:], saved[first:].float(), atol=1e-5)


def parse_args(argv: Optional[Sequence[str]] = None) -> Namespace:
    """Return the settings of the words after ``hf`` of the command line."""
    parser = parser_of(__doc__, "bert-fused-export hf")
    add = parser.add_argument
    add("checkpoint", metavar="CHECKPOINT", type=given_path, help="checkpoint of a plain transformer")
    add("output", metavar="OUT", type=given_path, help="directory to write, which is new")
    add("--imported", metavar="DIR", type=given_path,
        help="directory of the import; default: where the checkpoint, or the start of its training, lies")  # fmt: skip
    return parser.parse_args(argv)
