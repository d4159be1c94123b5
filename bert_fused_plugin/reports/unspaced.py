"""Languages that are written without spaces between words: how BLEU splits their text."""

import re
from typing import Optional, Sequence

# sacreBLEU's tokenisers that need no download and no other package, and the codes of their languages (ISO 639); cn and
# jp are no codes, but names that people give to their files
_CODES = {
    "zh": "zh zho chi cmn yue wuu lzh cn",
    "char": "ja jpn jp th tha lo lao km khm my mya bur shn bo bod tib dz dzo",
}
_TOKENIZERS = {code: tokenizer for tokenizer, codes in _CODES.items() for code in codes.split()}
_FEW = 0.1  # share of spaces among characters; a segmented text has 0.2 or more


def bleu_tokenizer(language: str) -> Optional[str]:
    """Return sacreBLEU's tokeniser for a *language* that is written without spaces, and None for other languages.

    Args:
        language: a code of two or three letters, also with a script or a country: ``zh``, ``zh_CN``, ``tha_Thai``.
            In Latin letters (``zho_Latn``), all languages have spaces.
    """
    code, *others = re.split("[-_]", language.lower())
    return None if "latn" in others else _TOKENIZERS.get(code)


def has_few_spaces(texts: Sequence[str]) -> bool:
    """Say whether *texts* of a language that is written without spaces are as people write them, and not segmented."""
    return sum(text.count(" ") for text in texts) < _FEW * max(1, sum(map(len, texts)))
