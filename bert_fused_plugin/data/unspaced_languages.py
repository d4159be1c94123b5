"""Languages that are written without spaces between words."""

import re
from typing import Optional

# sacreBLEU's tokenisers that need no download and no other package, and the codes of their languages (ISO 639); cn and
# jp are no codes, but names that people give to their files
_CODES = {
    "zh": "zh zho chi cmn yue wuu lzh cn",
    "char": "ja jpn jp th tha lo lao km khm my mya bur shn bo bod tib dz dzo",
}
_TOKENIZERS = {code: tokenizer for tokenizer, codes in _CODES.items() for code in codes.split()}


def bleu_tokenizer(language: str) -> Optional[str]:
    """Return sacreBLEU's tokeniser for a *language* that is written without spaces, and None for other languages.

    Codes such as ``zh_CN`` and ``tha_Thai`` are known, too; in Latin letters (``zho_Latn``) all languages have spaces.
    """
    code, *others = re.split("[-_]", language.lower())
    return None if "latn" in others else _TOKENIZERS.get(code)
