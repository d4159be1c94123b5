"""benchmarks/ambiguous_words.py, on a made-up language with one ambiguous word."""

import json
import subprocess
import sys

from documentation import ROOT


def test_the_choice_between_two_translations_is_counted(tmp_path):
    common = [(f"{a}{b}word", f"{a}{b}wort") for a in "abcdefghij" for b in "abcdefghij"]
    pairs = [(f"{a} {a}", f"{b} {b}") for a, b in common for _ in range(30)]  # the frequent words
    pairs += [("bank money", "kreditinstitut geld")] * 15 + [("bank river", "flussufer strom")] * 15
    pairs += [("money", "geld"), ("river", "strom")] * 40
    files = {
        "train.en": [a for a, _ in pairs],
        "train.de": [b for _, b in pairs],
        "test.en": ["bank money", "bank river", "bank", "river"],
        "test.de": ["Kreditinstitute", "flussufer", "kreditinstitut flussufer", "strom"],  # the third decides nothing
        "baseline.de": ["flussufer geld", "flussufer", "flussufer", "strom"],
        "system.de": ["kreditinstitut", "flussufern", "flussufer", "strom"],
    }
    for name, lines in files.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    script = ROOT / "benchmarks" / "ambiguous_words.py"
    done = subprocess.run([sys.executable, script, *files], cwd=tmp_path, check=True, capture_output=True, text=True)
    figures = json.loads(done.stdout)
    assert figures["words"] == {"bank": ["flus", "kred"]}
    assert figures["places"] == 2
    assert figures["accuracy"] == {"baseline": 0.5, "system": 1.0}
    assert figures["p"] == 1  # one place more is no evidence
