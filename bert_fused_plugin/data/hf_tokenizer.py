"""A Hugging Face tokenizer as the bridge uses it: text to word pieces, and the special tokens around them."""

import json
import logging
import re
from hashlib import blake2b
from importlib.metadata import distributions
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Iterable, Iterator, List, Sequence, Tuple

from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.files import file_of_model

logger = logging.getLogger(__name__)

Template = Tuple[List[int], List[int], List[int]]  # special tokens before, between and after one or two texts

_PLACES = ("name_or_path", "is_local", "local_files_only")  # where the same tokenizer may lie
_READERS = ("transformers", "sentencepiece", "sacremoses", "fugashi", "unidic-lite", "ipadic")  # of slow tokenizers
_LONGEST_WORD = 1000  # letters: clauses of Thai and Khmer have no spaces; a longer word would take long
_CHANCE = {"dropout": None, "alpha": None, "nbest_size": None, "_enable_sampling": False}  # and what switches it off
# what programs treat in different ways: case, accents, forms of letters, spaces, scripts, special tokens
_LINES = ("", "The Élan don't USA 1,234.5 -- «ß» 北京 𝔘  Ｆｕｌｌ ﬁne ½ İ\t<s> [SEP] </s> नमस्ते ไทย안녕 ")


class _NoSpecialTokens:
    """Makes special tokens that occur in text unknown to *tokenizer*."""

    def __init__(self, tokenizer: Any) -> None:
        self._unk: List[int] = [] if tokenizer.unk_token_id is None else [tokenizer.unk_token_id]
        # the pieces that a model of sentencepiece has for the signs in text are among them in transformers 5
        of_text = (i for i, token in tokenizer.added_tokens_decoder.items() if not token.special)
        self._not_text = {None, *tokenizer.all_special_ids} - {*self._unk, *of_text}

    def __call__(self, ids: List[Any]) -> List[int]:
        if self._not_text.isdisjoint(ids):
            return ids
        return [i for row in (self._unk if i in self._not_text else [i] for i in ids) for i in row]


class FastTokenizer:
    """The program in Rust inside a fast *tokenizer*, which then cuts and pads nothing.

    Special tokens are text where they occur in text, or unknown where its model has them among its pieces (Unigram).
    """

    def __init__(self, tokenizer: Any) -> None:
        self._as_text = _NoSpecialTokens(tokenizer)
        self._backend: Any = tokenizer.backend_tokenizer
        self._backend.no_truncation()
        self._backend.no_padding()
        self._backend.encode_special_tokens = True
        # the fast one computes no positions in the text; tokenizers has it since version 0.20
        is_new = hasattr(self._backend, "encode_batch_fast")
        self._encode_batch = self._backend.encode_batch_fast if is_new else self._backend.encode_batch

    def encode(self, texts: Sequence[str]) -> List[List[int]]:
        """Return the ids of the word pieces of each of the *texts*, without special tokens."""
        return [self._as_text(row.ids) for row in self._encode_batch(list(texts), add_special_tokens=False)]

    def identity(self) -> str:
        """Return all that the word pieces depend on, except the version of the package tokenizers."""
        return str(self._backend.to_str())

    def template(self, count: int) -> Template:
        """Return the special tokens before, between and after *count* texts, such as [CLS], [SEP], [SEP]."""
        encoding = self._backend.encode(*[self._readable_text()] * count)
        positions = [i for i, special in enumerate(encoding.special_tokens_mask) if not special]
        if not positions:
            return encoding.ids, [], []
        second = [i for i in positions if encoding.sequence_ids[i] == 1]
        first_end = max(i for i in positions if i not in second) + 1
        between = encoding.ids[first_end : second[0]] if second else []
        return encoding.ids[: positions[0]], between, encoding.ids[positions[-1] + 1 :]

    def _readable_text(self) -> str:
        """Return a text that has at least one word piece: a tokenizer for Persian may know no Latin letters."""
        texts = ["a", *sorted(self._backend.get_vocab(with_added_tokens=False))]
        return next((text for text in texts if self._backend.encode(text, add_special_tokens=False).ids), "a")


class SlowTokenizer:
    """A slow *tokenizer*, in Python, such as those of PhoBERT, of Japanese BERTs and of OPUS-MT."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer, self._as_text = tokenizer, _NoSpecialTokens(tokenizer)
        added = [token for token in tokenizer.added_tokens_decoder.values() if not token.special]
        added.sort(key=lambda token: len(str(token)), reverse=True)
        choices = "|".join(rf"(?<!\S){text}(?!\S)" if token.single_word else text
            for token in added if (text := re.escape(str(token))))  # fmt: skip
        self._added = re.compile(f"({choices or '(?!)'})")

    def encode(self, texts: Sequence[str]) -> List[List[int]]:
        """Return the ids of the word pieces of each of the *texts*, without special tokens."""
        return [self._as_text(self._tokenizer.convert_tokens_to_ids([*self._pieces(text)])) for text in texts]

    def _pieces(self, text: str) -> Iterator[str]:
        for number, part in enumerate(self._added.split(text)):
            if number % 2:  # a token that a user has added
                yield part
            elif part.strip():
                yield from self._tokenizer.tokenize(part, split_special_tokens=True)

    def identity(self) -> str:
        """Return all that the word pieces depend on, also the versions of the packages that split the text."""
        settings = {name: value for name, value in self._tokenizer.init_kwargs.items() if name not in _PLACES}
        with TemporaryDirectory() as folder:
            self._tokenizer.save_vocabulary(folder)
            files = sorted(blake2b(file.read_bytes()).hexdigest() for file in Path(folder).iterdir())
        versions = {d.metadata["Name"]: d.version for d in distributions() if d.metadata["Name"] in _READERS}
        kind = type(self._tokenizer).__name__
        added = [self._added.pattern] if self._tokenizer.get_added_vocab() else []  # by which rule they are split off
        return json.dumps([kind, settings, files, versions, *added], default=str, sort_keys=True)

    def template(self, count: int) -> Template:
        """Return the special tokens before, between and after *count* texts, such as [CLS], [SEP], [SEP]."""
        marks = [-1, -2][:count]
        ids = self._tokenizer.build_inputs_with_special_tokens(*([mark] for mark in marks))
        first, last = (ids.index(mark) for mark in (marks[0], marks[-1]))
        return ids[:first], ids[first + 1 : last], ids[last + 1 :]


def take_program(tokenizer: Any, plain: Any, file: str, name: str) -> None:
    """Let the fast *tokenizer* of *name* run the program in its *file* tokenizer.json, which its class may rebuild.

    The class adds special tokens if the file adds none or they say the language, of which the file knows only one, and
    does what the user's options change.  *plain* is the tokenizer without these options, which must give the same word
    pieces as the file.

    Raises:
        BertFusedError: Without the options, the class gives other word pieces than the file.
    """
    from tokenizers import Tokenizer

    program, asked, before = Tokenizer.from_file(file), tokenizer._tokenizer, plain._tokenizer
    program.no_truncation()
    program.no_padding()
    read_surely([program.model], name)
    special = before.encode("")
    known = [program.token_to_id(token) for token in special.tokens] == special.ids != []
    if known and (hasattr(tokenizer, "src_lang") or not program.encode("").ids):
        program.post_processor = before.post_processor
    parts = ("normalizer", "pre_tokenizer", "post_processor")
    changed = [part for part in parts if _settings(asked, part) != _settings(before, part)]
    of_file = [program.encode(line).ids for line in _LINES]
    for part in changed:
        setattr(program, part, getattr(before, part))
    if [program.encode(line).ids for line in _LINES] != of_file:
        raise BertFusedError(
            f"--bert-tokenizer-options: {file} says another {' and '.join(changed)} than {type(tokenizer).__name__}, "
            "which these options would change; leave them out, and change a copy of that file instead"
        )
    for part in changed:
        setattr(program, part, getattr(asked, part))
    tokenizer._tokenizer = program
    if tokenizer.unk_token is not None and program.token_to_id(tokenizer.unk_token) is None:
        pieces = program.encode("\U0010fffd", add_special_tokens=False).ids  # of a character that nobody uses
        added = program.get_added_tokens_decoder()
        tokenizer.unk_token = next((added[piece].content for piece in pieces if piece in added), None)


def take_normalizer(tokenizer: Any, name: str) -> None:
    """Let the fast *tokenizer* of *name* normalise text by the rules in its model of sentencepiece.

    Some classes of transformers 5, such as that of DeBERTa-v3, build a program without them.
    """
    from tokenizers.normalizers import Precompiled, Sequence
    from transformers.convert_slow_tokenizer import import_protobuf

    program, file = tokenizer._tokenizer, tokenizer.vocab_files_names.get("vocab_file", "")
    path = file_of_model(name, file) if file.endswith(".model") else None
    if path is None or "Precompiled" in str(_settings(program, "normalizer")):
        return
    model = import_protobuf().ModelProto()
    model.ParseFromString(Path(path).read_bytes())
    rules = model.normalizer_spec.precompiled_charsmap
    if rules:
        program.normalizer = Sequence([Precompiled(rules), *([program.normalizer] if program.normalizer else [])])


def _settings(program: Any, part: str) -> Any:
    return getattr(program, part) and json.loads(getattr(program, part).__getstate__())


def read_surely(parts: Iterable[Any], name: str) -> None:
    """Let the *parts* of the tokenizer of *name* give a text always the same word pieces, and split long words, too."""
    for part in parts:
        if hasattr(part, "max_input_chars_per_word"):
            part.max_input_chars_per_word = max(_LONGEST_WORD, part.max_input_chars_per_word)
        for setting in (setting for setting in _CHANCE if hasattr(part, setting) and getattr(part, setting)):
            problem = f"its tokenizer splits words at random ({setting} {getattr(part, setting)})"
            logger.warning(f"--bert-model {name}: {problem}, which is switched off")
            setattr(part, setting, _CHANCE[setting])
