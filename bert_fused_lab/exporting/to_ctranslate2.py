"""Convert a plain transformer of fairseq into a directory that needs ctranslate2, but neither fairseq nor torch.

    python -m bert_fused_lab.exporting.to_ctranslate2 CHECKPOINT DATA_BIN TEXT OUT SRC TGT [flags]

TEXT holds sentencepiece.model, or the codes of subword-nmt, with which the training text was split.  OUT gets the model
in float32 and in int8, that file, settings.json, translate.py, README.md and, for text of Moses, moses_text.py.  An
earlier model at OUT is replaced.
"""

import json
import logging
import shutil
from argparse import BooleanOptionalAction, Namespace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Dict, Optional, Sequence

import torch
from ctranslate2.converters import FairseqConverter
from fairseq.data import Dictionary

from bert_fused_lab.arguments import parser_of
from bert_fused_lab.evidence.words import is_lower_cased
from bert_fused_lab.output import written_output
from bert_fused_plugin.checkpoints.reading import read_checkpoint, saved_flags
from bert_fused_plugin.data import moses_text
from bert_fused_plugin.data.dictionary_bridge import detect_detok
from bert_fused_plugin.data.subwords import bleu_tokenizer, language_code
from bert_fused_plugin.data.typed_text import hyphens_are_split
from bert_fused_plugin.errors import BertFusedError

PRECISIONS = ("float32", "int8")
_SUBWORDS = {"sentencepiece.model": "sentencepiece", "codes": "subword-nmt"}  # files, and what pip calls their tools
_SEARCH = {"beam": 5, "lenpen": 1.0, "max_len_a": 0.0, "max_len_b": 200}  # the defaults of fairseq-generate
_README = """\
# {0}-{1}: a translation model for CTranslate2

Copy this directory to any machine; it needs `pip install ctranslate2 {packages}`, and neither fairseq nor torch.
The folders are the model in two precisions: {sizes}.

    python translate.py < text.{0} > translation.{1}          # {text}, one sentence a line
    python translate.py --int8 --threads 4 < text.{0} > translation.{1}

    from translate import Translator                        # in Python, with this directory on sys.path
    Translator("int8").translate(["A sentence.", "Another one."])
"""


def main(args: Namespace) -> None:
    """Write the directory, which appears when it is complete.

    Raises:
        BertFusedError: the model is of another kind, or the file of its subwords is missing.
    """
    subwords = next((name for name in _SUBWORDS if (args.text / name).is_file()), None)
    if subwords is None:
        raise BertFusedError(f"{args.text} has neither {' nor '.join(_SUBWORDS)}; put the file there that split it")
    if any(args.output.glob("*")) and not (args.output / "settings.json").is_file():
        raise BertFusedError(f"{args.output} holds other things than a converted model; give another directory")
    file = args.data / f"dict.{args.languages[0]}.txt"
    if not file.is_file():
        raise BertFusedError(f"{args.data} has no {file.name}; give the data-bin of the training, and its languages")
    source = Dictionary.load(str(file))
    args.moses = detect_detok(source) == "moses" if args.moses is None else args.moses
    with written_output(args.output, "OUT") as new:
        new.mkdir()
        flags = convert(args, new)
        sizes = ", ".join(f"{name} {(new / name / 'model.bin').stat().st_size / 1e6:,.1f} MB" for name in PRECISIONS)
        shutil.copyfile(args.text / subwords, new / subwords)
        shutil.copyfile(Path(__file__).with_name("translate.py"), new / "translate.py")
        if args.moses:
            shutil.copyfile(moses_text.__file__, new / "moses_text.py")
        (new / "settings.json").write_text(json.dumps(settings(args, flags, source), indent=1), encoding="utf-8")
        packages = f"{_SUBWORDS[subwords]} sacremoses" if args.moses else _SUBWORDS[subwords]
        unspaced = subwords == "codes" and bleu_tokenizer(args.languages[0]) is not None
        text = "words with spaces between them, as in training" if unspaced else "raw text"
        readme = _README.format(*args.languages, packages=packages, sizes=sizes, text=text)
        (new / "README.md").write_text(readme, encoding="utf-8")
    print(f"deploy: {args.output} has the model in two precisions: {sizes}; its README.md says how to translate")


def convert(args: Namespace, new: Path) -> Namespace:
    """Write the model in all precisions by CTranslate2's converter, and return the flags of its training."""
    logging.getLogger("fairseq").setLevel(logging.WARNING)  # it says the same for each precision
    state = read_checkpoint(args.checkpoint)
    flags = Namespace(**saved_flags(state, "model"))
    # the converter would refuse types that fairseq's checkpoints have, so it reads one that has only flags and weights
    with TemporaryDirectory(dir=new) as folder, torch.serialization.safe_globals([Namespace]):
        torch.save({"args": flags, "model": dict(state["model"])}, f"{folder}/checkpoint.pt")
        converter = FairseqConverter(f"{folder}/checkpoint.pt", str(args.data), *args.languages)
        try:
            for precision in PRECISIONS:
                converter.convert(str(new / precision), quantization=precision)
        except (ValueError, RuntimeError, KeyError, AttributeError) as error:  # many name flags, or sizes that differ
            raise BertFusedError(
                f"{args.checkpoint} cannot be converted with {args.data}; give a plain transformer, such as a student, "
                f"and its data-bin\n{error}"
            ) from None
    return flags


def settings(args: Namespace, flags: Namespace, source: Dictionary) -> Dict[str, Any]:
    """Return what translate.py must know about the text, whose dictionary is *source*, and the search."""
    words = "".join(source.symbols[source.nspecial :])
    return {
        "languages": list(map(language_code, args.languages)),
        "moses": args.moses,
        "has_spaces": bleu_tokenizer(args.languages[1]) is None,
        "escape": not {"'", '"'} & set(words),  # Moses' escapes, such as &apos;, leave neither in the text
        "split_hyphens": hyphens_are_split(source) is not False,
        "lower": is_lower_cased(source),
        "longest": min(flags.max_source_positions, flags.max_target_positions) - 1,
        **{name: vars(args)[name] for name in _SEARCH},
    }


def parse_args(argv: Optional[Sequence[str]] = None) -> Namespace:
    """Return the settings of the command line."""
    parser = parser_of(__doc__)
    for name in ("checkpoint", "data", "text", "output"):
        parser.add_argument(name, type=Path)
    parser.add_argument("languages", nargs=2, metavar="LANG")
    parser.add_argument("--moses", action=BooleanOptionalAction, help="whether Moses' rules tokenised the text before "
        "it was split; default: by symbols such as &apos;")  # fmt: skip
    for name, default in _SEARCH.items():
        flag = f"--{name.replace('_', '-')}"
        parser.add_argument(flag, type=type(default), default=default, help="as for fairseq-generate")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main(parse_args())
