"""Translate raw text, one sentence a line, by the model of this directory.

python translate.py [--int8] [--threads N] < text > translation

README.md says what to install.  The search is that of fairseq-generate, with the settings of settings.json.
"""

import argparse
import json
import re
import sys
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from runpy import run_path
from typing import Any, Iterable, List
from unicodedata import category

import ctranslate2

HERE = Path(__file__).resolve().parent
_LINES = 1000  # translated together
_BYTES = re.compile("(?:<0x[0-9A-F]{2}>)+")  # what sentencepiece makes of rare letters, with --byte_fallback


class Translator:
    """A model in ``float32`` or ``int8``; *threads* is the number of cores, and 0 lets CTranslate2 choose.

    A GPU, *device* "cuda", needs the libraries of CUDA that CTranslate2 was built for.
    """

    def __init__(self, precision: str = "float32", threads: int = 0, device: str = "cpu") -> None:
        self._model = ctranslate2.Translator(str(HERE / precision), device=device, intra_threads=threads)
        self._settings = json.loads((HERE / "settings.json").read_text(encoding="utf-8"))
        self._pieces = (HERE / "sentencepiece.model").exists()
        self._split = _splitter(self._pieces)
        if self._settings["moses"]:
            from sacremoses import MosesTokenizer

            source, target = self._settings["languages"]
            detokenizer = run_path(str(HERE / "moses_text.py"))["detokenizer"]
            self._tokenizer = MosesTokenizer(source)
            self._detokenize = detokenizer(target, self._settings["has_spaces"])

    def translate(self, lines: Iterable[str]) -> List[str]:
        """Return the translation of each line."""
        return [self.join(symbols) for symbols in self.search([self.split(line) for line in lines])]

    def search(self, sentences: List[List[str]]) -> List[List[str]]:
        """Return the symbols of the best translation of each sentence, which is given by its symbols."""
        most = self._settings["longest"]
        for sentence in filter(lambda symbols: len(symbols) > most, sentences):
            print(f"warning: a line of {len(sentence):,} symbols is cut to {most:,}", file=sys.stderr)
        longest = min(max(map(len, sentences), default=0) + 1, most)  # with the end of the sentence
        length = int(self._settings["max_len_a"] * longest + self._settings["max_len_b"])
        results = self._model.translate_batch(
            sentences,
            beam_size=self._settings["beam"],
            length_penalty=self._settings["lenpen"],
            max_batch_size=2048,
            batch_type="tokens",
            max_input_length=most + 1,  # and its end
            max_decoding_length=min(length, most),
        )
        return [result.hypotheses[0] if sentence else [] for sentence, result in zip(sentences, results)]

    def split(self, line: str) -> List[str]:
        """Return the symbols of a raw sentence, and none if it has no visible character."""
        if all(category(sign) in ("Cc", "Cf", "Zs", "Zl", "Zp") for sign in line):
            return []
        if self._settings["lower"] and self._settings["languages"][0] in ("tr", "az"):
            line = line.replace("İ", "i").replace("I", "ı")
        if self._settings["moses"]:
            hyphens, escape = self._settings["split_hyphens"], self._settings["escape"]
            line = self._tokenizer.tokenize(line, aggressive_dash_splits=hyphens, escape=escape, return_str=True)
        return self._split(" ".join((line.lower() if self._settings["lower"] else line).split()))

    def join(self, symbols: List[str], tokenised: bool = False) -> str:
        """Return the text of a translation, whose words may stay *tokenised*."""
        if self._pieces:
            text = _BYTES.sub(_decoded, "".join(symbols)).replace("\u2581", " ").strip()
        else:
            text = f"{' '.join(symbols)} ".replace("@@ ", "").strip()
        return self._detokenize(text) if self._settings["moses"] and not tokenised else text


def _decoded(pieces: "re.Match[str]") -> str:
    return bytes.fromhex(re.sub("<0x|>", "", pieces[0])).decode("utf-8", "replace")


def _splitter(pieces: bool) -> Any:
    if pieces:
        from sentencepiece import SentencePieceProcessor

        model = SentencePieceProcessor(model_file=str(HERE / "sentencepiece.model"))
        return lambda line: model.encode(line, out_type=str)
    from subword_nmt.apply_bpe import BPE

    with (HERE / "codes").open(encoding="utf-8") as codes:
        bpe = BPE(codes)
    symbol = re.compile(r"<(?=(s|/s|pad|unk)>(?!\S))")  # in a word that would be or end with a symbol of the model
    return lambda line: bpe.process_line(symbol.sub("< ", line)).split()


def main() -> None:
    """Translate standard input."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--int8", action="store_true", help="take the smaller and faster model")
    parser.add_argument("--threads", type=int, default=0, metavar="N", help="number of cores")
    args = parser.parse_args()
    translator = Translator("int8" if args.int8 else "float32", args.threads)
    stdin = TextIOWrapper(sys.stdin.buffer, "utf-8-sig", "replace", "\n")  # as fairseq-interactive reads bytes
    sys.stdout = TextIOWrapper(sys.stdout.buffer, "utf-8")
    lines = (line.rstrip("\r\n") for line in stdin)
    while chunk := list(islice(lines, _LINES)):
        print(*translator.translate(chunk), sep="\n", flush=True)


if __name__ == "__main__":
    main()
