"""Translate a test set by a directory of to_ctranslate2 on one core, for a report beside the systems of fairseq.

    python -m bert_fused_lab.exporting.measure_ctranslate2 DEPLOY TEXT [--tokenised]

TEXT is the source side in subwords, such as test.en.  DEPLOY.test.float32 and DEPLOY.test.int8, beside the directory,
get the translations, one a line.  With --tokenised, their words stay tokenised.
"""

import runpy
import sys
import time
from pathlib import Path


def main(folder: Path, text: Path, *flags: str) -> None:
    """Write the translations, and print speed and size."""
    with text.open(encoding="utf-8", newline="\n") as lines:
        sentences = [line.split() for line in lines]
    translator_class = runpy.run_path(str(folder / "translate.py"))["Translator"]
    for precision in ("float32", "int8"):
        translator = translator_class(precision, threads=1)
        translator.search(sentences[:8])  # memory warms up
        start = time.perf_counter()
        translations = translator.search(sentences)
        speed = len(sentences) / (time.perf_counter() - start)
        output = "".join(f"{translator.join(symbols, '--tokenised' in flags)}\n" for symbols in translations)
        folder.with_name(f"{folder.name}.{text.stem}.{precision}").write_text(output, encoding="utf-8")
        size = (folder / precision / "model.bin").stat().st_size / 1e6
        print(f"ctranslate2_{precision}: {speed:,.1f} sentences a second on one core, {size:,.1f} MB")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
