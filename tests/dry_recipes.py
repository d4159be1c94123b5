"""bert-fused-recipe without its work: each command is only written down."""

import json
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from documentation import ROOT

from bert_fused_lab.recipe import command, steps
from bert_fused_lab.recipe.data import text_settings
from bert_fused_plugin.errors import BertFusedError

CHECKPOINTS = ("_best", "_last", ".best_bleu_8.99", ".best_bleu_10.02", ".best_bleu_9.03", ".best_bleu_9.50")


class Dry:
    """Runs recipes of examples/ in the folder *path*."""

    def __init__(self, path: Path, monkeypatch) -> None:
        self.path, self.words = path, []
        self.fails = None  # the program that fails
        monkeypatch.chdir(path)
        monkeypatch.setattr(steps, "layer_and_width", lambda name: (None, 384))
        for name in ("SEED", *(name.upper().replace("-", "_") for name, *_ in command.OPTIONS)):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("BERT", "some-bert")

    def __call__(self, words, log=None, training=None, held=()):
        """Write the command down, and leave what it would leave."""
        if words[0] == self.fails:
            raise BertFusedError(f"{words[0]} ended with status 1")
        self.words.append(list(map(str, words)))
        if log is not None:
            log.touch()
        if words[0] == "fairseq-train":
            folder = Path(words[-words[::-1].index("--save-dir")])  # the last one counts
            folder.mkdir(parents=True, exist_ok=True)
            for name in CHECKPOINTS:
                (folder / f"checkpoint{name}.pt").touch()
        if words[0] == "fairseq-preprocess":
            Path(words[words.index("--destdir") + 1]).mkdir(parents=True)

    def arguments(self, recipe, *steps, data=".", source="en", target="de", **options):
        given = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
        if recipe != "own_data":
            given += ["--settings", str(ROOT / "examples" / recipe / "settings.yaml")]
        return [source, target, str(data), *given, *steps]

    def run(self, recipe, *steps, **options):
        """Return what a recipe prints that comes to its end."""
        with redirect_stdout(StringIO()) as said:
            command.main(self.arguments(recipe, *steps, **options), self)
        return said.getvalue()

    def refused(self, recipe, *steps, **options):
        """Return the message with which a recipe ends early."""
        with pytest.raises(BertFusedError) as caught:
            self.run(recipe, *steps, **options)
        return str(caught.value)

    def prepared(self, recipe, **options):
        """Return the folder of a recipe whose text is prepared."""
        args = command.parse_args(self.arguments(recipe, **options))
        (args.out / "data-bin").mkdir(parents=True)
        made = {"settings": text_settings(args), "bert": "some-bert", "text": None, "pairs": 3000, "tokens": 6000}
        (args.out / "data-bin" / "made-from.json").write_text(json.dumps({**made, "files": {}}))
        return self.path / args.out

    def calls(self, program):
        """Return the words after the name of each command of a *program*."""
        return [words[1:] for words in self.words if words[0] == program]
