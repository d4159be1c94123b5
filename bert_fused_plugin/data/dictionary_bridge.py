"""From fairseq's ids to BERT's: dictionary -> text (subwords joined, detokenised) -> word pieces."""

import hashlib
import json
import logging
import re
from itertools import groupby
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence

import torch
from fairseq.data import Dictionary
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from bert_fused_plugin.data import subwords
from bert_fused_plugin.data.hf_tokenizer import FastTokenizer, SlowTokenizer
from bert_fused_plugin.data.moses_text import detokenizer
from bert_fused_plugin.errors import BertFusedError

logger = logging.getLogger(__name__)

# no tokenizer has this id, so that BERT's input does not depend on the padding token of the tokenizer
BERT_PAD = -1

# case, accents, numbers, punctuation, another script: where tokenizers of one vocabulary differ
_PROBE = "The Élan don't USA 1,234.5 naïve -- «ß» 北京 𝔘"

Part = Optional[str]  # a stretch of text, or None for an unknown word


class DictionaryBridge:
    """Derives BERT's input, by its *tokenizer*, from a sentence in fairseq's source *dictionary*, or from raw text.

    Special tokens such as ``[SEP]`` are text where they occur in text.  A fairseq ``<unk>`` becomes the tokenizer's
    unknown token.  Every sentence, also an empty one, has at least one word piece.

    Args:
        max_tokens: longest BERT input in word pieces, special tokens included; a longer sentence is cut.
        subword: kind of subwords by which symbols become text, a row of `SUBWORDS`; ``auto``: the dictionary shows it.
        detok: a row of `DETOKENIZERS`; ``auto``: the dictionary shows whether Moses tokenised the text, or whether it
            is Chinese or Japanese whose words were split.
        lang: source language, for Moses.
        context: number of preceding sentences of the document that BERT reads with each sentence.
        tags: symbols of the dictionary that are left out of BERT's text.
    """

    def __init__(
        self,
        dictionary: Dictionary,
        tokenizer: Any,
        *,
        max_tokens: int,
        subword: str = "auto",
        detok: str = "auto",
        lang: str = "en",
        context: int = 0,
        tags: Sequence[str] = (),
    ) -> None:
        self._hf_tokenizer = tokenizer
        # XLM-R's tokenizer has none, also where BERT's class reads its word pieces, as in multilingual-e5-small
        self.has_types = context > 0 and any(tokenizer("a", "a", return_token_type_ids=True)["token_type_ids"])
        self._tokenizer = FastTokenizer(tokenizer) if tokenizer.is_fast else SlowTokenizer(tokenizer)
        self.max_tokens = max_tokens
        self.subword = subwords.detect_subword(dictionary) if subword == "auto" else subword
        are_words_split = self.subword in ("none", "subword_nmt") and subwords.joins_words(lang)
        auto_detok = "moses" if are_words_split else detect_detok(dictionary)
        self.detok = auto_detok if detok == "auto" else detok
        self._lang = lang
        self.context = context
        self._has_cut = False
        self._symbols = dictionary.symbols
        self._unk = dictionary.unk()
        self.tags = tuple(sorted(tag for tag in set(tags) if tag in dictionary))
        self._silent = {dictionary.bos(), dictionary.pad(), dictionary.eos(), *map(dictionary.index, self.tags)}
        self._join: Optional[subwords.Join] = subwords.SUBWORDS[self.subword].join
        self.bpe: Optional[str] = None
        self.problem = "" if self._join else subwords.cannot_join(self.subword, dictionary)
        self._detokenize = DETOKENIZERS[self.detok](lang)
        self._single, self._pair = map(self._tokenizer.template, (1, 2))
        self.special_tokens = sorted({token for part in (*self._single, *self._pair) for token in part})
        self._unk_piece = [] if tokenizer.unk_token_id is None else [tokenizer.unk_token_id]
        known = (tokenizer.bos_token_id, tokenizer.eos_token_id, *self._unk_piece, 0)
        self._empty = [next(int(token) for token in known if token is not None)]

    def join_by(self, join: subwords.Join, bpe: str) -> None:
        """Let *join* make text of symbols; *bpe* names the ``--bpe`` and the contents of its files."""
        self._join, self.bpe, self.problem = join, bpe, ""

    def misses_capitals(self, dictionary: Dictionary) -> bool:
        """Return whether the tokenizer distinguishes capitals, and the *dictionary* is of lower-cased text."""
        text = self._letters(dictionary)
        small, capital = self.word_pieces(["a", "A"])
        # a few small letters do not tell in other scripts; Georgian capitals do not begin words
        have_capitals = sum(letter != letter.title() for letter in text) > sum(map(str.isalpha, text)) / 2
        return have_capitals and text == text.lower() and small != capital

    def loses_capitals(self, dictionary: Dictionary) -> bool:
        """Return whether the *dictionary* has capitals, and the tokenizer knows words only without them."""
        small, capital = self.word_pieces(["a", "A"])
        return capital == self._unk_piece != small and bool(re.search("[A-Z]", self._letters(dictionary)))

    def _letters(self, dictionary: Dictionary) -> str:
        return "".join(symbol for symbol in dictionary.symbols[dictionary.nspecial :] if symbol not in self.tags)

    def text(self, src_tokens: Tensor) -> str:
        """Return the text that BERT reads for one sentence *src_tokens*, (S,); padding is ignored."""
        return "".join(" <unk>" if part is None else part for part in self._parts(src_tokens.tolist())).strip()

    def word_pieces(self, texts: Sequence[str]) -> List[List[int]]:
        """Return the word-piece ids, without special tokens, of each of the raw *texts*."""
        return self._encode_parts([[text] for text in texts])

    def word_pieces_of_tokens(self, sentences: Sequence[Sequence[int]]) -> List[List[int]]:
        """Return the word-piece ids, without special tokens, of each of the *sentences* of fairseq ids."""
        return self._encode_parts([list(self._parts(sentence)) for sentence in sentences])

    def frame(self, pieces: Sequence[int], context: Sequence[int] = ()) -> List[int]:
        """Return *pieces* and their *context* between special tokens: ``[CLS] context [SEP] pieces [SEP]``.

        If that is too long for BERT, the beginning of the context is cut off first, and then the end of the sentence.
        """
        before, between, after = self._pair
        left = self.max_tokens - len(before) - len(between) - len(pieces) - len(after)
        if context and left > 0:
            return [*before, *context[-left:], *between, *pieces, *after]
        before, _, after = self._single
        room = max(0, self.max_tokens - len(before) - len(after))
        if len(pieces) > room:
            if not self._has_cut:
                logger.warning(
                    f"a source sentence of {len(pieces)} word pieces is cut to {room} for BERT "
                    f"(--bert-max-tokens {self.max_tokens}); further sentences are cut without a message"
                )
            self._has_cut = True
        return [*before, *pieces[:room], *after] or list(self._empty)

    def segments(self, bert_tokens: Tensor) -> Optional[Tensor]:
        """Return the token types of *bert_tokens*, (B, L), which are 1 after the context; None if all of them are 0."""
        if not (self._pair[1] and self.has_types):
            return None
        ends = bert_tokens.eq(self._pair[1][-1]).long()
        before = ends.cumsum(dim=1) - ends
        return before.clamp(max=1)

    def bert_tokens(self, src_tokens: Tensor) -> Tensor:
        """Return ``bert_tokens``, (B, L), on the device of *src_tokens*, (B, S), padded on either side."""
        rows = map(self.frame, self.word_pieces_of_tokens(src_tokens.tolist()))
        return collate_bert_tokens([torch.tensor(row) for row in rows]).to(src_tokens.device)

    def pieces(self, bert_tokens: Sequence[int]) -> List[str]:
        """Return the word pieces of one sentence's *bert_tokens*, for people to read."""
        tokens = [token for token in bert_tokens if token != BERT_PAD]
        return list(map(str, self._hf_tokenizer.convert_ids_to_tokens(tokens)))

    def tokenizer_fingerprint(self) -> str:
        """Return a hash of the tokenizer's vocabulary, and of what it makes of a difficult line."""
        before, _, after = self._single
        probe = [*before, *self._tokenizer.encode([_PROBE])[0], *after]
        return _hash(json.dumps([sorted(self._hf_tokenizer.get_vocab().items()), probe]))[:32]

    def identity(self) -> Dict[str, Any]:
        """Return all that the word pieces depend on, except the sentence and the versions of libraries."""
        return {
            "symbols": _hash(json.dumps([self._symbols, self._unk, sorted(self._silent)])),
            "subword": self.subword,
            "bpe": self.bpe,
            "detok": [self.detok, self._lang],
            "tokenizer": _hash(self._tokenizer.identity()),
            "special tokens": [self._single, self._pair, self._unk_piece, self._empty],
            "max_tokens": self.max_tokens,
            "context": self.context,
        }

    def _parts(self, sentence: Sequence[int]) -> Iterator[Part]:
        """Yield the text between the unknown words of a *sentence* of fairseq ids, and None for each of these."""
        known = [token for token in sentence if token not in self._silent]
        if max(known, default=0) >= len(self._symbols):
            raise BertFusedError(
                f"the data has the source symbol {max(known)}, but the dictionary has only {len(self._symbols)}; take "
                "data and dict.*.txt from the same run of fairseq-preprocess"
            )
        if self._join is None:
            raise BertFusedError(self.problem)
        first = True
        for is_unk, run in groupby(known, key=self._unk.__eq__):
            if is_unk:
                yield from (None for _ in run)
            else:
                text = self._detokenize(self._join([self._symbols[token] for token in run]))
                # the space tells byte-level tokenizers that a word begins
                yield text if first else " " + text
            first = False

    def _encode_parts(self, sentences: Sequence[Sequence[Part]]) -> List[List[int]]:
        texts = [part for sentence in sentences for part in sentence if part is not None]
        # an unpaired surrogate cannot be passed to the tokenizer
        parts = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
        encoded = iter(self._tokenizer.encode(parts))
        rows = []
        for sentence in sentences:
            pieces: List[int] = []
            for part in sentence:
                pieces += self._unk_piece if part is None else next(encoded)
            rows.append(pieces)
        return rows


def collate_bert_tokens(rows: Sequence[Tensor]) -> Tensor:
    """Return *rows* of word-piece ids as one LongTensor (B, L), padded on the right with `BERT_PAD`."""
    # BERT counts positions from the left, and its states must not depend on the other sentences of the batch
    return pad_sequence(list(rows), batch_first=True, padding_value=BERT_PAD).long()


DETOKENIZERS: Dict[str, Callable[[str], Callable[[str], str]]] = {
    "none": lambda lang: str,
    # Moses takes fr_CA for English
    "moses": lambda lang: detokenizer(subwords.language_code(lang), subwords.bleu_tokenizer(lang) is None),
}


def detect_detok(dictionary: Dictionary) -> str:
    """Return ``moses`` if *dictionary* has symbols that only the tokenizer of Moses makes, such as ``&apos;``."""
    # sentencepiece marks the beginning of a word, and splits such a symbol; text of Moses has neither ' nor "
    known = {symbol.replace("\u2581", "") for symbol in dictionary.symbols}
    whole = known & {"&apos;", "&quot;", "@-@", "&apos;s"}
    return "moses" if whole or (known >= {"&", "apos", "quot"} and not known & {"'", '"'}) else "none"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
