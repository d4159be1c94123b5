"""README's commands run, and its tables are complete."""

import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from conftest import ROOT, write_corpus

from bert_fused_plugin.bert.flags import BertFlags
from bert_fused_plugin.models.bert_fused.config import BertFusedConfig
from bert_fused_plugin.models.gru_bahdanau.config import GruConfig
from bert_fused_plugin.tasks.bert_fused_translation_config import BertFusedTranslationConfig

README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.system
def test_the_five_commands_run(tmp_path, bert_dir):
    write_corpus(tmp_path, train=150, valid=20, test=30)
    [block] = re.findall(r"<!-- test -->\n```bash\n(.*?)```", README, re.DOTALL)
    script = block.replace("--max-epoch 30", "--max-epoch 1 --cpu").replace("--beam 5", "--beam 2 --max-len-b 9 --cpu")
    assert script.count("--cpu") == 3
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=tmp_path,
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "BERT": bert_dir,
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(ROOT),
        },
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert len((tmp_path / "test.hyp").read_text(encoding="utf-8").splitlines()) == 30
    assert '"name": "BLEU"' in done.stdout
    assert done.stdout.count("\nH-") == 5  # interactive, on the first five lines


def test_every_flag_of_the_recurrent_models_has_its_row_with_its_default():
    table = README.split("Of the architectures `gru_*`")[1].split("The criterion")[0]
    rows = re.findall(r"^\| (`--[^|]*`) \| `?([^|`]*)`? \|", table, re.MULTILINE)
    defaults = {flag: default.strip() for flags, default in rows for flag in re.findall(r"--[a-z-]+", flags)}
    inherited = {field.name for field in fields(BertFlags)} | {"max_source_positions", "max_target_positions"}
    for field in fields(GruConfig):
        if field.name not in inherited:
            flag = "--" + field.name.replace("_", "-")
            assert flag in defaults, f"{flag} has no row in README"
            assert defaults[flag] == ("none" if field.default is None else str(field.default))


@pytest.mark.parametrize("config", [BertFusedConfig, BertFusedTranslationConfig])
def test_every_flag_has_its_row_with_its_default(config):
    tables = README.split("Of the architectures `gru_*`")[0]
    rows = dict(re.findall(r"^\| `(--bert-[a-z-]+)` \| `?([^|`]*)`? \|", tables, re.MULTILINE))
    for field in fields(config):
        if field.name.startswith("bert_"):
            flag = "--" + field.name.replace("_", "-")
            assert flag in rows, f"{flag} has no row in README"
            if field.default is not None:
                assert rows[flag].strip() == str(field.default)
