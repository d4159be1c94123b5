import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "bleu_by_length.py"
WORDS = "a b c d e f g h i j k l".split()


def run(*args):
    return subprocess.run([sys.executable, str(SCRIPT), *map(str, args)], capture_output=True, text=True)


def output_of(path, rows):
    lines = ["2026 | INFO | fairseq | a line of the log"]
    for number, (source, reference, hypothesis) in enumerate(rows):
        lines += [f"S-{number}\t{source}", f"T-{number}\t{reference}", f"H-{number}\t-0.5\t{hypothesis}"]
        lines += [f"H-{number}\t-0.9\tthe second best", f"P-{number}\t-0.1 -0.2"]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_bleu_of_each_length(tmp_path):
    short, long = " ".join(WORDS[:4]), " ".join(WORDS[:9])
    good = output_of(tmp_path / "good", [(short, short, short), (long, long, long), ("", "", "")])
    bad = output_of(tmp_path / "bad", [(short, short, short), (long, long, "x y z"), ("", "", "")])
    done = run(f"good={good}", f"bad={bad}", "--json", tmp_path / "out.json", "--output", tmp_path / "out.png")
    assert done.returncode == 0, done.stderr
    scores = json.loads((tmp_path / "out.json").read_text())
    assert scores["good"] == {"5": {"bleu": 100.0, "sentences": 2}, "10": {"bleu": 100.0, "sentences": 1}}
    assert scores["bad"]["5"]["bleu"] == 100
    assert scores["bad"]["10"]["bleu"] < 10
    assert "| 6-10 | 1 | 100.00 | 0.00 |" in done.stdout
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("nothing here\n", "it has no translations (H lines)"),
        ("H-0\t-0.5\ta b\n", "sentence 0 lacks its source, reference or translation"),
        (None, "No such file"),
    ],
)
def test_what_is_no_output_of_generate(tmp_path, content, message):
    path = tmp_path / "out"
    if content is not None:
        path.write_text(content)
    done = run(f"x={path}")
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert "NAME=FILE" in run(path).stderr


def test_systems_are_of_one_test_set_and_have_names(tmp_path):
    one = output_of(tmp_path / "one", [("a b", "c d", "c d")])
    other = output_of(tmp_path / "other", [("a b", "c e", "c d")])
    for systems, message in (
        ([f"x={one}", f"y={other}"], "its sources or references are not those of x"),
        ([f"x={one}", f"x={one}"], "each with a name of its own"),
        ([f"={one}"], "each with a name of its own"),
        ([f"x={one}", "--output", tmp_path / "figure.foo"], "cannot be written: Format 'foo'"),
        ([f"x={one}", "--json", tmp_path / "no" / "file"], "cannot be written: [Errno 2]"),
    ):
        done = run(*systems)
        assert done.returncode == 2
        assert message in done.stderr
