"""Symbols whose characters stand for the bytes of UTF-8: fairseq's ``bytes`` and ``byte_bpe``, and GPT-2's pieces."""

import codecs
import re
from typing import Mapping, Optional, Sequence

from fairseq.data.encoders.byte_bpe import ByteBPE
from fairseq.data.encoders.byte_utils import BCHAR_TO_BYTE
from fairseq.data.encoders.gpt2_bpe_utils import bytes_to_unicode

Alphabet = Mapping[str, int]  # the byte for which each character stands

BYTE_BPE: Alphabet = {**BCHAR_TO_BYTE, "\u2581": 32}
BYTE_LEVEL: Alphabet = {character: byte for byte, character in bytes_to_unicode().items()}

_OTHERS = re.compile(f"([^{re.escape(''.join(BYTE_BPE))}]+)")


def spells_bytes(symbols: Sequence[str], alphabet: Alphabet, certain: bool = False) -> bool:
    """Return whether the *symbols* are written in *alphabet*: those that are not ASCII are parts of UTF-8.

    Text in a Latin script uses the same characters, but as letters: in "Mädchen" the letter ä would be a byte that
    UTF-8 does not allow before a d.

    Args:
        symbols: the symbols of a dictionary.
        alphabet: the alphabet.
        certain: whether some symbols must show that it is no Latin script: by a character that Latin text hardly has,
            or by a whole character of several bytes.
    """
    spaces = "".join(character for character, byte in alphabet.items() if byte == ord(" "))
    found = [_bytes(symbol, alphabet) for symbol in symbols if not symbol.lstrip(spaces).isascii()]
    parts = [_text(data) for data in found if data is not None]
    signs = sum(text is not None and not text.isascii() for text in parts)
    if certain:
        signs += sum(any("\u017f" <= character <= "\u01ad" for character in symbol) for symbol in symbols)
        if signs <= 0.01 * len(found):
            return False
    return sum(text is not None for text in parts) >= 0.99 * len(found)


def decode_byte_bpe(text: str) -> str:
    """Return what fairseq's ``--bpe byte_bpe`` and ``--bpe bytes`` make of *text*; other characters stay."""
    parts = _OTHERS.split(text)
    return "".join(part if i % 2 else str(ByteBPE.decode(part)) for i, part in enumerate(parts)).strip()


def _bytes(symbol: str, alphabet: Alphabet) -> Optional[bytes]:
    """Return the bytes that *symbol* stands for; None if one of its characters stands for no byte."""
    values = [alphabet.get(character) for character in symbol]
    return None if None in values else bytes(value for value in values if value is not None)


def _text(data: bytes) -> Optional[str]:
    """Return the whole characters in *data*, a part of UTF-8; None if it is a part of no UTF-8."""
    begin = next((i for i, byte in enumerate(data[:3]) if not 0x80 <= byte < 0xC0), min(3, len(data)))
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(data[begin:])
    except UnicodeDecodeError:
        return None
