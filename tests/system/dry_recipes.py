"""The recipes of examples/ without their work: each command only writes down what it was called with."""

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

from documentation import ROOT

STUB = """#!{python}
import json, sys
from pathlib import Path
with open({log!r}, "a") as log:
    log.write(json.dumps([Path(sys.argv[0]).name, *sys.argv[1:]]) + "\\n")
if "--save-dir" in sys.argv:
    folder = Path(sys.argv[sys.argv.index("--save-dir") + 1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("_best", "_last", ".best_bleu_8.99", ".best_bleu_10.02", ".best_bleu_9.03", ".best_bleu_9.50"):
        (folder / ("checkpoint" + name + ".pt")).touch()
"""


class Dry:
    """A copy of the examples whose commands only write down what they were called with."""

    def __init__(self, path: Path) -> None:
        self.path, self.log = path, path / "log"
        shutil.copytree(ROOT / "examples", path / "examples")
        (path / "scripts").mkdir()
        shutil.copy(ROOT / "scripts" / "environment.sh", path / "scripts")
        for program in ("scripts/setup.sh", *(f"venv/bin/{name}" for name in self.programs())):
            file = path / program
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(STUB.format(python=sys.executable, log=str(self.log)), encoding="utf-8")
            file.chmod(file.stat().st_mode | stat.S_IXUSR)

    @staticmethod
    def programs():
        fairseq = [f"fairseq-{name}" for name in ("preprocess", "train", "generate")]
        return [*fairseq, "bert-fused-compare", "bert-fused-average", "python"]

    def run(self, recipe, *steps, **variables):
        """What a recipe prints that comes to its end."""
        done = self.attempt(recipe, *steps, **variables)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def refused(self, recipe, *steps, **variables):
        """The message with which a recipe ends early."""
        done = self.attempt(recipe, *steps, **variables)
        assert done.returncode == 2, done.stdout
        return done.stderr

    def attempt(self, recipe, *steps, **variables):
        script = self.path / "examples" / recipe / "run.sh"
        env = {**os.environ, "VENV": str(self.path / "venv"), "BERT": "some-bert", **variables}
        return subprocess.run([script, *steps], capture_output=True, text=True, cwd=self.path, env=env)

    def calls(self, program):
        rows = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [row[1:] for row in rows if row[0] == program]
