"""Is the raw text of ``--bert-text`` that of the sentences in the data?"""

from collections import Counter
from typing import Any, List, Tuple
from unicodedata import normalize

from bert_fused_plugin.data.dictionary_bridge import DictionaryBridge
from bert_fused_plugin.data.subwords import decode_byte_bpe
from bert_fused_plugin.errors import BertFusedError

_LINES = 300  # of a split, evenly taken
_FEWEST = 20  # lines that tell something
_LEAST = 0.25  # share of sequences of three letters that agree; 0.05 to 0.15 in other sentences of the same language


def check_raw_text(texts: Any, sentences: Any, bridge: DictionaryBridge, place: str) -> None:
    """Compare some lines of *texts*, in the file *place*, with the text of fairseq's *sentences*, by their letters.

    Capitals, accents, spaces and punctuation do not count, since BERT's text may be segmented or normalised.

    Raises:
        BertFusedError: hardly anything agrees.
    """
    if bridge.problem:  # the ids do not tell the text
        return
    found: List[Tuple[float, int]] = []
    for i in range(0, len(texts), max(1, len(texts) // _LINES)):
        derived, raw = bridge.text(sentences[i]).replace("<unk>", " "), _sequences(texts[i])
        # fairseq's byte_bpe has no sign in the dictionary
        read = max(map(_sequences, (derived, decode_byte_bpe(derived))), key=lambda each: sum((each & raw).values()))
        size = min(sum(read.values()), sum(raw.values()))
        if size and any(map(str.isalpha, derived)):
            found.append((sum((read & raw).values()) / size, i))
    share = sum(each for each, _ in found) / len(found) if found else 1.0
    if len(found) >= _FEWEST and share < _LEAST:
        _, worst = min(found)
        raise BertFusedError(
            f"{place} must hold the raw text of the binarised sentences, line by line, but only {share:.0%} of the "
            f"letters in {len(found)} compared lines agree: line {worst + 1} is {texts[worst][:60]!r} for "
            f"{bridge.text(sentences[worst])[:60]!r}; give the source text of exactly these sentences, in their order"
        )


def _sequences(text: str) -> "Counter[str]":
    letters = "".join(filter(str.isalnum, normalize("NFKD", text.casefold())))
    return Counter(letters[i : i + 3] for i in range(len(letters) - 2))
