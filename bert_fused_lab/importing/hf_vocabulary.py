"""The symbols of a translation model of transformers: fairseq's dictionaries, sentencepiece's models, language tags."""

from pathlib import Path
from typing import Any, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple

import torch
from fairseq.data import Dictionary
from langcodes import Language, closest_match, tag_is_valid
from sentencepiece import SentencePieceProcessor
from torch import Tensor
from transformers.convert_slow_tokenizer import import_protobuf

from bert_fused_plugin.data.tags import LANGUAGE_TAG
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.files import file_of_model

_UNNAMED = "madeupword"  # as fairseq names rows without a symbol
_SAME_LANGUAGE = 5  # a distance of langcodes; Norwegian and its Bokmål have 1, Swiss German and German 8


class Vocabulary(NamedTuple):
    """Symbols in the order of transformers, models of sentencepiece, and tags, each for source and target."""

    symbols: Tuple[List[str], ...]
    models: Tuple[str, ...]
    tags: Tuple[str, ...]  # the symbol that begins each sentence, or an empty text


def read_vocabulary(name: str, tokenizer: Any, config: Any, languages: Sequence[str]) -> Vocabulary:
    """Return the vocabulary of the model *name*, with the tags of the pair of *languages*, as it names them or as ISO.

    Raises:
        BertFusedError: A file or a tag is missing.
    """
    is_marian = config.model_type == "marian"
    files = ("source.spm", "target.spm") if is_marian else ("sentencepiece.bpe.model",) * 2
    models = tuple(file_of_model(name, file) or "" for file in files)
    if "" in models:
        raise BertFusedError(f"{name} has no {files[models.index('')]}; copy it from the model that this one began as")
    known = {**tokenizer.get_vocab(), **(vars(tokenizer).get("lang_token_to_id") or {})}
    targets = tokenizer.target_encoder if is_marian and tokenizer.separate_vocabs else known
    sizes = (config.vocab_size, config.decoder_vocab_size if is_marian else config.vocab_size)
    symbols: Tuple[List[str], ...] = tuple([f"{_UNNAMED}{i:04d}" for i in range(size)] for size in sizes)
    for side, numbers in zip(symbols, (known, targets)):
        for symbol, i in numbers.items():
            if i < len(side) and symbol.split() == [symbol]:  # else no line of text has it
                side[i] = symbol
    others = set(symbols[0]) - _pieces(models)
    form = ">>{}<<" if is_marian else "__{}__" if "__en__" in others else "{}"
    marian_tags = sorted(symbol for symbol in others if symbol.startswith(">>"))
    wanted = [(language, _tag(language, form, others)) for language in (languages[1:] if is_marian else languages)]
    for language, tag in wanted:
        if not tag and (marian_tags or not is_marian):
            codes = ", ".join(marian_tags[:99]) or "eng_Latn (NLLB), en (M2M100) or en_XX (mBART-50)"
            raise BertFusedError(
                f"--source-lang, --target-lang: {name} has no {form.format(language)}; name {language} as in {codes}"
            )
    return Vocabulary(symbols, models, (*(tag for _, tag in wanted if tag), "", "")[:2])


def dictionary_of(symbols: Sequence[str], keep: Optional[Set[str]]) -> Dictionary:
    """Return fairseq's dictionary of those *symbols* that are in *keep*, or of all."""
    dictionary = Dictionary()
    for symbol in symbols:
        if keep is None or symbol in keep:
            dictionary.add_symbol(symbol)
    return dictionary


def numbers_of(dictionary: Dictionary, symbols: Sequence[str]) -> Tensor:
    """Return the place of each symbol of the *dictionary* among *symbols*, (V,), or -1."""
    numbers = {symbol: i for i, symbol in enumerate(symbols)}
    return torch.tensor([numbers.get(symbol, -1) for symbol in dictionary.symbols])


def symbols_of_text(vocabulary: Vocabulary, files: Iterable[Path]) -> Set[str]:
    """Return the symbols that the text in *files* needs, single letters, and all that is no piece, such as tags.

    Raises:
        BertFusedError: A file cannot be read.
    """
    used: Set[str] = set()
    for model in map(SentencePieceProcessor, dict.fromkeys(vocabulary.models)):
        for file in files:
            try:
                with file.open(encoding="utf-8") as lines:
                    used.update(piece for line in lines for piece in model.encode(line, out_type=str))
            except (OSError, ValueError) as error:
                raise BertFusedError(f"--vocabulary-of {file} cannot be read ({error}); give text in UTF-8") from error
    pieces = _pieces(vocabulary.models)
    symbols = {symbol for side in vocabulary.symbols for symbol in side if not symbol.startswith(_UNNAMED)}
    return {s for s in symbols if s in used or len(s.replace("\u2581", "")) <= 1 or s not in pieces}


def write_model(path: str, keep: Optional[Set[str]], output: Path) -> None:
    """Write the model of sentencepiece in the file *path* so that it splits text into the pieces *keep* alone."""
    model = import_protobuf().ModelProto()
    model.ParseFromString(Path(path).read_bytes())
    for piece in model.pieces:
        if keep is not None and piece.type == piece.NORMAL and piece.piece not in keep:
            piece.type = piece.UNUSED
    output.write_bytes(model.SerializeToString())


def _tag(language: str, form: str, symbols: Set[str]) -> str:
    """Return that of the *symbols* that is a *language* in this *form*, or the tag of the same language, or ""."""
    if form.format(language) in symbols:
        return form.format(language)
    tags = {symbol.strip("_<>").replace("_", "-"): symbol for symbol in symbols if LANGUAGE_TAG.fullmatch(symbol)}
    return tags.get(same_language(language, tags), "")


def same_language(language: str, tags: Iterable[str]) -> str:
    """Return that of the *tags* which names the same *language* in the same script, or ""."""
    if not tag_is_valid(language):
        return ""
    script = Language.get(language).maximize().script
    # the script of Korean is Kore, which is Hangul with Hanja, but NLLB's tag says Hang
    known = {tag.replace("Hang", "Kore"): tag for tag in tags if tag_is_valid(tag)}
    known = {name: tag for name, tag in known.items() if Language.get(name).maximize().script == script}
    name, _ = closest_match(language, [*known], max_distance=_SAME_LANGUAGE)
    return known.get(name, "")


def _pieces(paths: Iterable[str]) -> Set[str]:
    models = map(SentencePieceProcessor, paths)
    return {model.id_to_piece(i) for model in models for i in range(model.get_piece_size())}
