"""Converts a pre-trained translation model of transformers into a checkpoint of fairseq's transformer.

    bert-fused-import hf Helsinki-NLP/opus-mt-en-de imported
    bert-fused-import hf facebook/nllb-200-distilled-600M imported -s en -t fr --vocabulary-of train.en train.fr

OPUS-MT (Marian), M2M100, dense NLLB and mBART-50 models compute the same in fairseq.  The new directory holds the
checkpoint, dictionaries, sentencepiece models, and a README with the commands that prepare text, translate, fine-tune,
and fuse BERT.
"""

import json
import shlex
import shutil
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

import torch
import transformers
from fairseq.models.transformer.transformer_legacy import base_architecture
from jinja2 import Environment, PackageLoader
from torch import Tensor
from transformers.utils import logging as hf_logging

from bert_fused_lab.arguments import given_path, parser_of
from bert_fused_lab.importing.checkpoint import Imported, write_imported
from bert_fused_lab.importing.hf_models import EMBEDDINGS, SIDES, model_flags, to_fairseq
from bert_fused_lab.importing.hf_vocabulary import (
    dictionary_of,
    numbers_of,
    read_vocabulary,
    same_language,
    symbols_of_text,
    write_model,
)
from bert_fused_lab.output import directory_errors, written_output
from bert_fused_plugin.checkpoints.reading import diverged
from bert_fused_plugin.errors import BertFusedError, flag_name, raise_all
from bert_fused_plugin.files import file_of_model

ORIGINAL = "hf"  # the folder with all files of the model of transformers but its weights
SETTINGS = "imported.json"  # the model, the flags of its architecture, and the tags that begin sentences
_FILES = (
    *("config.json", "generation_config.json", "tokenizer_config.json", "special_tokens_map.json", "tokenizer.json"),
    *("added_tokens.json", "vocab.json", "target_vocab.json", "source.spm", "target.spm", "sentencepiece.bpe.model"),
)
_DROPOUTS = ("dropout", "attention_dropout", "activation_dropout")
_COMPUTED = ("embed_positions", "final_logits_bias")  # weights that files may lack


def run(args: Namespace) -> None:
    """Write the directory; if there is an error, write nothing."""
    hf_logging.set_verbosity_error()
    hf_logging.disable_progress_bar()
    name = args.model
    raise_all(directory_errors("OUT", args.output))
    config, tokenizer = load(transformers.AutoConfig, name), load(transformers.AutoTokenizer, name)
    flags = {**model_flags(name, config), **{dropout: config.to_dict()[dropout] for dropout in _DROPOUTS}}
    attributes = vars(tokenizer) if config.model_type == "marian" else {}
    languages = _languages(args, attributes)
    vocabulary = read_vocabulary(name, tokenizer, config, languages)
    _warn_of_languages(name, attributes, languages[: 1 if vocabulary.tags[0] else 2])
    keep = symbols_of_text(vocabulary, args.vocabulary_of) if args.vocabulary_of else None
    dictionaries = [dictionary_of(symbols, keep) for symbols in vocabulary.symbols]
    options = {"torch_dtype": torch.float32, "output_loading_info": True}
    model, report = load(transformers.AutoModelForSeq2SeqLM, name, **options)
    other = [str(key) for keys in report.values() for key in keys if not any(part in str(key) for part in _COMPUTED)]
    if other:
        raise BertFusedError(
            f"{name} lacks {other[0]}, or has it in another form; give a whole model, without adapters"
        )
    state = to_fairseq(model.state_dict(), config, dict(zip(SIDES, map(numbers_of, dictionaries, vocabulary.symbols))))
    raise_all(diverged(name, state))
    encoder, decoder, scores = (state[table].data_ptr() for table in EMBEDDINGS)
    flags.update(share_all_embeddings=encoder == decoder == scores, share_decoder_input_output_embed=decoder == scores)
    with written_output(args.output, "OUT") as new:
        (new / ORIGINAL).mkdir(parents=True)
        for file, path in ((file, file_of_model(name, file)) for file in _FILES):
            if path is not None:
                shutil.copyfile(path, new / ORIGINAL / file)
        for side, path, dictionary, lang in zip(("source", "target"), vocabulary.models, dictionaries, languages):
            write_model(path, keep, new / f"{side}.spm")
            dictionary.save(str(new / f"dict.{lang}.txt"))
        named = dict(zip(("source_lang", "target_lang"), languages))
        _write(new, name, flags, named, vocabulary.tags, state)
    size, whole = sum({value.data_ptr(): value.numel() for value in state.values()}.values()), model.num_parameters()
    less = (
        "" if keep is None else f" ({1 - size / whole:.0%} less than {name}, of {len(vocabulary.symbols[0]):,} symbols)"
    )
    print(
        f"wrote {args.output}: {size:,} parameters, {' and '.join(f'{len(d):,}' for d in dictionaries)} symbols{less}"
    )


def _languages(args: Namespace, attributes: Dict[str, Any]) -> List[str]:
    """Return the languages of the command line or, where it names none, those in the *attributes* of the tokenizer."""
    languages = [vars(args)[side] or attributes.get(side) or "" for side in ("source_lang", "target_lang")]
    if "" in languages:
        raise BertFusedError(f"{args.model} does not say its languages; give --source-lang and --target-lang")
    if any("-" in language for language in languages):
        given = " and ".join(languages)
        raise BertFusedError(
            f"{given}: fairseq takes a hyphen for the one between two languages; write pt_BR for pt-BR"
        )
    return languages


def _warn_of_languages(name: str, attributes: Dict[str, Any], languages: Sequence[str]) -> None:
    """Warn if the *attributes* of the tokenizer of a model of two languages say that they are not *languages*."""
    for language, side in zip(languages, ("source", "target")):
        tag = str(attributes.get(f"{side}_lang"))
        if len(tag) == 2 and not same_language(language, [tag]):  # longer ones may name families
            print(f"warning: the {side} language of {name} is {tag}, and not {language}", file=sys.stderr)


def _write(
    new: Path,
    name: str,
    flags: Dict[str, Any],
    languages: Dict[str, str],
    tags: Sequence[str],
    state: Dict[str, Tensor],
) -> None:
    """Write the checkpoint, the settings and the README into the directory *new*."""
    args = Namespace(**flags, **languages, arch="transformer", task="translation")
    args.criterion = "label_smoothed_cross_entropy"
    base_architecture(args)
    write_imported(Imported(args, state), new / "checkpoint.pt")
    values = {flag_name(flag): value for flag, value in flags.items() if value is not False}
    words = [flag if value is True else f"{flag} {value}" for flag, value in values.items()]
    settings = {"model": str(Path(name).resolve()) if Path(name).is_dir() else name, "flags": words, "tags": tags}
    (new / SETTINGS).write_text(json.dumps(settings, indent=1), encoding="utf-8")
    source_tag, target_tag = (f" {shlex.quote(tag)}" if tag else "" for tag in tags)
    template = Environment(loader=PackageLoader(__package__), trim_blocks=True, keep_trailing_newline=True)
    text = template.get_template("imported.md").render(
        languages, name=name, flags=" ".join(words), source_tag=source_tag, target_tag=target_tag
    )
    # fairseq takes the languages from the name of such a file if they are not given
    (new / f"README.{'-'.join(languages.values())}.md").write_text(text, encoding="utf-8")


def load(kind: Any, name: str, **options: Any) -> Any:
    """Return what a class of transformers loads.

    Raises:
        BertFusedError: It cannot be loaded.
    """
    try:
        return kind.from_pretrained(name, trust_remote_code=False, **options)
    except Exception as error:  # a damaged file can raise any exception
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise BertFusedError(
            f"MODEL {name} cannot be loaded ({reason}); give a directory with config.json, the tokenizer's files and "
            "the weights, or a name on the Hugging Face hub"
        ) from error


def parse_args(argv: Optional[Sequence[str]] = None) -> Namespace:
    """Return the settings of the words after ``hf`` of the command line."""
    parser = parser_of(__doc__, "bert-fused-import hf")
    add = parser.add_argument
    add("model", metavar="MODEL", help="directory, or name on the Hugging Face hub")
    add("output", metavar="OUT", type=given_path, help="directory to write, which is new")
    add("-s", "--source-lang", metavar="LANG", help="source language, such as en or eng_Latn (default: the model's)")
    add("-t", "--target-lang", metavar="LANG", help="target language (default: the model's)")
    add("--vocabulary-of", type=given_path, nargs="+", metavar="FILE",
        help="text in both languages; keep only the symbols that it needs, single letters and tags")  # fmt: skip
    return parser.parse_args(argv)
