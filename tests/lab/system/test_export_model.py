"""bert-fused-export: what it writes can be moved and translates as before; what is missing is named."""

import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from fairseq.checkpoint_utils import load_model_ensemble_and_task
from fairseq.models.transformer import TransformerModel
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY
from random_checkpoints import gone, save_model
from safetensors.torch import load_file
from test_compare import edited
from transformers import BertConfig, BertModel
from workspace import ROOT, hypotheses

from bert_fused_lab.evidence.runs import Place, RunFiles, load_run
from bert_fused_lab.exporting.export_model import export_model, main
from bert_fused_plugin.bert.from_flags import locate_bert
from bert_fused_plugin.checkpoints.reading import read_checkpoint
from bert_fused_plugin.checkpoints.record import BERT_RECORD, read_json
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.models.bert_fused import BertFusedModel
from bert_fused_plugin.models.gru_bahdanau import GruModel
from bert_fused_plugin.tasks.bert_fused_translation import BertFusedTranslationTask
from bert_fused_plugin.tasks.bert_fused_translation_config import BertFusedTranslationConfig

LINES = ["The old man sees a dog.", "a small playhouse", "", "red apple, xyz"]
TRANSLATE = """
import json, sys
from bert_fused_plugin.models.bert_fused import BertFusedModel
hub = BertFusedModel.from_pretrained(sys.argv[1])
lines = json.loads(sys.argv[2])
scores = [h[0]["score"].item() for h in hub.generate([hub.encode(line) for line in lines], beam=2, max_len_b=8)]
print(json.dumps([hub.translate(lines, beam=2, max_len_b=8), hub.translate(lines[0], beam=2, max_len_b=8), scores]))
"""


def translations(hub, lines=LINES):
    """Return what *hub* makes of *lines*, and the scores."""
    best = [h[0] for h in hub.generate([hub.encode(line) for line in lines], beam=2, max_len_b=8)]
    return [hub.decode(h["tokens"]) for h in best], [h["score"].item() for h in best]


@pytest.fixture(scope="module")
def exported(workspace, codes, tmp_path_factory):
    """The workspace's model in a directory, and what the script printed."""
    path = tmp_path_factory.mktemp("exported") / "model"
    done = workspace.run(
        "bert-fused-export", workspace.checkpoint, workspace.data, "--output", path,
        "--codes", codes, "--tokenizer", "moses", "--moses-no-dash-splits", "--with-bert",
    )  # fmt: skip
    return path, done.stdout


def test_the_directory_translates_elsewhere_after_all_else_is_gone(workspace, exported, codes, tmp_path):
    text = {"tokenizer": "moses", "bpe": "subword_nmt", "bpe_codes": str(codes), "moses_no_dash_splits": True}
    hub = BertFusedModel.from_pretrained(workspace.save_dir, "checkpoint_last.pt", workspace.data, **text)
    expected, scores = translations(hub)
    expected[2] = ""  # of the empty line
    typed = "the old man sees a dog\nplay@@ hou@@ se\n\nxyz\n"
    before = hypotheses(workspace.interactive(typed, "--buffer-size", "4", "--batch-size", "4").stdout)

    moved, cwd = tmp_path / "another place" / "renamed", tmp_path / "cwd"
    shutil.copytree(exported[0], moved)
    (cwd / "bert").mkdir(parents=True)  # no BERT
    with gone(exported[0], workspace.bert_dir, workspace.data, workspace.save_dir):
        done = workspace.run("python", "-c", TRANSLATE, moved, json.dumps(LINES), cwd=cwd)
        assert json.loads(done.stdout.splitlines()[-1]) == [expected, expected[0], scores]
        after = workspace.run(
            "fairseq-interactive", moved, "--path", moved / "model.pt", "--user-dir", "bert_fused_plugin",
            "--task", "bert_fused_translation", "--beam", "3", "--max-len-b", "10", "--cpu",
            "--buffer-size", "4", "--batch-size", "4", text=typed, cwd=cwd,
        )  # fmt: skip
    assert hypotheses(after.stdout) == before
    assert len(before) == 4


def test_a_report_reads_the_bert_beside_the_model(workspace, exported, tmp_path):
    shutil.copytree(exported[0], tmp_path / "moved")
    with gone(exported[0], workspace.bert_dir):
        run = load_run(RunFiles("--run", "moved", tmp_path / "moved" / "model.pt"), Place(workspace.data, ["test"]))
    assert run.model.encoder.source.bert.name == str(tmp_path / "moved" / "bert")


def test_a_bert_in_the_working_directory_has_its_full_path_in_the_new_one(workspace, tmp_path, monkeypatch):
    bert = Path(workspace.bert_dir)
    monkeypatch.chdir(bert.parent)
    given = export_model(Path(workspace.checkpoint), workspace.data, tmp_path / "new", bert_model=f"./{bert.name}")
    assert given == workspace.bert_dir
    torch.save(read_checkpoint(Path(workspace.checkpoint), {"bert_model": f"./{bert.name}"}), tmp_path / "typed.pt")
    assert export_model(tmp_path / "typed.pt", workspace.data, tmp_path / "newer") == workspace.bert_dir
    assert load_run(RunFiles("--run", "typed", tmp_path / "typed.pt"), Place(workspace.data, ["test"]))


def test_a_task_of_ones_own_stays(workspace, tmp_path, monkeypatch):
    monkeypatch.setitem(TASK_REGISTRY, "own", type("Own", (BertFusedTranslationTask,), {}))
    monkeypatch.setitem(TASK_DATACLASS_REGISTRY, "own", BertFusedTranslationConfig)
    for name, kept in (("own", "own"), ("translation", "bert_fused_translation")):
        checkpoint = edited(workspace.checkpoint, tmp_path / "model.pt", _name=name)
        export_model(checkpoint, workspace.data, tmp_path / name)
        assert read_checkpoint(tmp_path / name / "model.pt")["cfg"].task._name == kept


def test_what_is_in_the_directory(workspace, exported, codes):
    path, printed = exported
    files = sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file())
    of_transformers_4 = [name for name in ("special_tokens_map.json",) if (Path(workspace.bert_dir) / name).exists()]
    names = ["config.json", "model.safetensors", *of_transformers_4, "tokenizer.json", "tokenizer_config.json"]
    bert = [f"bert/{name}" for name in names]
    assert files == ["README.en-de.md", *bert, "bpecodes", "dict.de.txt", "dict.en.txt", "model.pt"]
    assert [line.split()[-1] for line in printed.splitlines()[1:]] == files
    assert (path / "bpecodes").read_bytes() == codes.read_bytes()
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        assert (path / "bert" / name).read_bytes() == (Path(workspace.bert_dir) / name).read_bytes()
    assert {oct((path / file).stat().st_mode) for file in files} == {oct(codes.stat().st_mode)}
    readme = (path / "README.en-de.md").read_text(encoding="utf-8")
    assert 'load_hub("DIR").translate(' in readme
    assert "It translates raw text.\n" in readme
    assert "--tokenizer moses --moses-no-dash-splits --bpe subword_nmt --bpe-codes DIR/bpecodes" in readme


def test_model_pt_names_no_place_of_this_machine_and_holds_no_training_state(workspace, exported):
    raw = (exported[0] / "model.pt").read_bytes()
    for place in (workspace.bert_dir, str(workspace.path), str(ROOT), str(exported[0].parent)):
        assert place.encode() not in raw
    state = torch.load(exported[0] / "model.pt", weights_only=False)
    trained = torch.load(workspace.checkpoint, weights_only=False)
    assert state["last_optimizer_state"] is None
    assert (state["cfg"]["task"]["source_lang"], state["cfg"]["task"]["target_lang"]) == ("en", "de")
    assert vars(state["cfg"]["model"])["bert_model"] == "./bert"
    assert read_json(state["model"], BERT_RECORD)["name"] == Path(workspace.bert_dir).name
    names = trained["model"].keys() - {"encoder.bert_record.text"}
    assert all(torch.equal(state["model"][k], trained["model"][k]) for k in names if not k.endswith("_float_tensor"))


@pytest.mark.parametrize(
    ("model", "arch", "flags", "with_bert"),
    [
        (BertFusedModel, "bert_decoder", {"bert_model": "{bert}"}, True),
        (BertFusedModel, "bert_fused", {"bert_model": "{bert}", "bert_layer": "mix", "bert_context": 1}, True),
        (BertFusedModel, "bert_fused", {"bert_model": "{bert}", "bert_finetune": True, "bert_lr_factor": 0.3}, True),
        (BertFusedModel, "bert_fused", {"bert_model": "{bert}", "bert_finetune": True, "bert_layer": "1"}, True),
        (GruModel, "gru_bahdanau", {"bert_model": "{bert}", "bert_finetune": True, "bert_finetune_layers": 1}, True),
        (GruModel, "gru_dot", {"bert_model": "{bert}", "attention_map": "entmax"}, True),
        (GruModel, "gru_seq2seq", {}, False),
        (TransformerModel, "transformer", {"task": "translation"}, False),
    ],
)  # fmt: skip
def test_every_kind_of_model(workspace, tmp_path, model, arch, flags, with_bert):
    flags = {name: workspace.bert_dir if value == "{bert}" else value for name, value in flags.items()}
    checkpoint = save_model(workspace, tmp_path / "old.pt", arch, **flags)
    expected, scores = translations(model.from_pretrained(str(tmp_path), "old.pt", workspace.data))
    name = export_model(checkpoint, workspace.data, tmp_path / "new", with_bert=with_bert)
    assert name == ("./bert" if with_bert else None)
    with gone(workspace.bert_dir, workspace.data):
        seen, seen_scores = translations(model.from_pretrained(str(tmp_path / "new")))
    assert seen == expected
    assert seen_scores == pytest.approx(scores, abs=1e-6)


def test_a_finetuned_bert_moves_from_the_checkpoint_to_its_directory(workspace, tmp_path):
    flags = {"bert_model": workspace.bert_dir, "bert_finetune": True, "bert_lr_factor": 0.5}
    checkpoint = save_model(workspace, tmp_path / "old.pt", "bert_fused", **flags)
    export_model(checkpoint, workspace.data, tmp_path / "with", with_bert=True)
    export_model(checkpoint, workspace.data, tmp_path / "without")
    trained, here, still = (
        read_checkpoint(p) for p in (checkpoint, tmp_path / "with/model.pt", tmp_path / "without/model.pt")
    )
    key = "embeddings.word_embeddings.weight"
    theta = trained["model"][f"encoder.bert.model.{key}"]
    assert torch.equal(load_file(tmp_path / "with/bert/model.safetensors")[key], theta * 0.5)
    assert not [name for name in here["model"] if name.startswith("encoder.bert.")]
    assert not here["cfg"].model.bert_finetune
    assert torch.equal(still["model"][f"encoder.bert.model.{key}"], theta)
    assert still["cfg"].model.bert_model == workspace.bert_dir


def test_what_only_the_training_needed_is_left_out(workspace, tmp_path):
    flags = {"bert_cache": "cache", "bert_text": "text", "num_batch_buckets": 2}
    checkpoint = save_model(workspace, tmp_path / "old.pt", "bert_fused", bert_model=workspace.bert_dir, **flags)
    export_model(checkpoint, workspace.data, tmp_path / "new", tokenizer={"_name": "space"})
    hub = BertFusedModel.from_pretrained(str(tmp_path / "new"))
    assert hub.tokenize("a  b") == "a b"
    assert len(hub.translate(["the dog"], max_len_b=4)) == 1
    task = torch.load(tmp_path / "new" / "model.pt", weights_only=False)["cfg"]["task"]
    assert {name: task[name] for name in flags} == {**dict.fromkeys(flags), "num_batch_buckets": 0}


@pytest.mark.parametrize(
    ("trained_with", "in_python", "on_the_command_line"),
    [
        (None, '("DIR")', "--user-dir bert_fused_plugin --task bert_fused_translation"),
        ("/somewhere/bert_fused_plugin", '("DIR")', "--user-dir bert_fused_plugin --task bert_fused_translation"),
        ("plugins/own/", '("DIR", user_dir="own")', "--user-dir own --task bert_fused_translation"),
    ],
)
def test_the_plugin_of_the_training_is_named(workspace, tmp_path, trained_with, in_python, on_the_command_line):
    checkpoint = save_model(workspace, tmp_path / "old.pt", "gru_dot", user_dir=trained_with)
    export_model(checkpoint, workspace.data, tmp_path / "new")
    readme = (tmp_path / "new" / "README.en-de.md").read_text(encoding="utf-8")
    assert f"\n    load_hub{in_python}.translate(" in readme
    assert f" --path DIR/model.pt {on_the_command_line} \\\n        -s en -t de\n" in readme
    assert "It translates text in the form of the training text" in readme


def test_all_that_is_wrong_is_said_at_once_and_nothing_is_written(workspace, tmp_path):
    checkpoint = save_model(workspace, tmp_path / "old.pt", "gru_dot")
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "file").touch()
    given = {"subword_nmt": tmp_path / "nowhere"}
    with pytest.raises(BertFusedError) as caught:
        export_model(checkpoint, workspace.data, tmp_path / "used", given, with_bert=True)
    assert [message.split(" ")[0] for message in caught.value.errors] == ["--output", "--with-bert:", "--codes"]
    assert "used exists and is not empty; name a new directory" in caught.value.errors[0]
    with pytest.raises(BertFusedError, match="no is no directory; make it first"):
        export_model(checkpoint, workspace.data, tmp_path / "no" / "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old.pt", "used"]
    with pytest.raises(BertFusedError, match="--moses-no-escape need --tokenizer moses"):
        main([str(checkpoint), workspace.data, "--output", f"{tmp_path}/new", "--moses-no-escape"])


def test_a_model_of_another_kind(workspace, tmp_path):
    """fairseq's language models and multilingual models have no pair of languages."""
    for task in ("language_modeling", "translation_multi_simple_epoch"):
        checkpoint = save_model(workspace, tmp_path / "old.pt", "transformer", task="translation")
        state = torch.load(checkpoint, weights_only=False)
        state["args"].task = task
        state["args"].lang_pairs = "en-de"
        torch.save(state, checkpoint)
        with pytest.raises(BertFusedError, match=f"old.pt is a model of --task {task}, but only translation models"):
            export_model(checkpoint, workspace.data, tmp_path / "new")
        assert not (tmp_path / "new").exists()


def test_an_exported_model_is_exported_again(workspace, tmp_path):
    checkpoint = save_model(workspace, tmp_path / "old.pt", "gru_dot", bert_model=workspace.bert_dir)
    first, second = tmp_path / "first", tmp_path / "second"
    export_model(checkpoint, workspace.data, first, with_bert=True)
    with pytest.raises(BertFusedError, match=r"model.pt reads BERT from ./bert .* add --with-bert, which copies"):
        export_model(first / "model.pt", str(first), second)
    export_model(first / "model.pt", str(first), second, with_bert=True)
    with gone(first):
        assert isinstance(GruModel.from_pretrained(str(second)).translate("the dog", max_len_b=4), str)
    third = export_model(first / "model.pt", str(first), tmp_path / "3", bert_model=workspace.bert_dir)
    assert third == workspace.bert_dir


def test_a_directory_that_cannot_be_loaded_gets_no_name(workspace, tmp_path, monkeypatch):
    checkpoint = save_model(workspace, tmp_path / "old.pt", "gru_dot", bert_model=workspace.bert_dir)

    def save_another(bert, directory):
        shutil.copytree(workspace.bert_dir, directory)
        BertModel(BertConfig.from_pretrained(workspace.bert_dir)).save_pretrained(directory)

    monkeypatch.setattr("bert_fused_lab.exporting.export_model.save_bert", save_another)
    with pytest.raises(BertFusedError, match=r"--bert-model ./bert has other weights"):
        export_model(checkpoint, workspace.data, tmp_path / "new", with_bert=True)
    assert [path.name for path in tmp_path.iterdir()] == ["old.pt"]


@pytest.mark.parametrize("task", ["bert_fused_translation", "translation"])
def test_a_line_that_is_too_long_takes_no_other_with_it(workspace, tmp_path, task):
    """It is longer than the model reads."""
    limits = {"max_tokens": 6, "batch_size": 2, "max_source_positions": 8}
    flags = {"task": task, "bert_model": workspace.bert_dir, **limits}
    checkpoint = save_model(workspace, tmp_path / "old.pt", "bert_fused", **flags)
    export_model(checkpoint, workspace.data, tmp_path / "new")
    hub = BertFusedModel.from_pretrained(str(tmp_path / "new"))
    lines = ["the dog", "the " * 40, "a man sees the dog", "a dog"]
    together = hub.translate(lines, beam=2, max_len_b=8)
    assert together == [hub.translate(line, beam=2, max_len_b=8) for line in lines]
    assert together[1] == hub.translate("the " * 7, beam=2, max_len_b=8)
    assert len(list(hub._build_batches([hub.encode(line) for line in lines[::2]], False))) == 1


# --- directories that lost a part on their way: each loss is named


def test_files_that_were_cut_off(exported, tmp_path):
    copy = shutil.copytree(exported[0], tmp_path / "copy")
    weights = copy / "bert" / "model.safetensors"
    os.truncate(weights, weights.stat().st_size // 2)
    with pytest.raises(BertFusedError, match=r"copy/bert' cannot be loaded; the directory must hold .* undamaged"):
        BertFusedModel.from_pretrained(str(copy))
    (copy / "bpecodes").unlink()
    shutil.copy(exported[0] / "bert" / "model.safetensors", weights)
    with pytest.raises(OSError, match="file bpecodes, which belongs into the model's directory, not found"):
        BertFusedModel.from_pretrained(str(copy))
    os.truncate(copy / "model.pt", (copy / "model.pt").stat().st_size // 2)
    with pytest.raises(Exception, match=r"checkpoint .*copy/model.pt cannot be read: it is cut off, damaged"):
        BertFusedModel.from_pretrained(str(copy))


def test_with_other_data_bert_is_named_anew(exported, workspace):
    path = str(exported[0] / "model.pt")
    with pytest.raises(BertFusedError, match=r"with other data: --model-overrides .*'bert_model': 'MODEL_DIR/bert'"):
        load_model_ensemble_and_task([path], arg_overrides={"data": workspace.data})
    overrides = {"data": workspace.data, "bert_model": str(exported[0] / "bert")}
    assert len(load_model_ensemble_and_task([path], arg_overrides=overrides)[0]) == 1


def test_only_names_that_begin_with_a_dot_are_looked_for_in_the_data_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data, task = tmp_path / "data", SimpleNamespace(cfg=SimpleNamespace(data=str(tmp_path / "data")))
    for path in (data / "bert", data / "bert-base-uncased", tmp_path / "bert", tmp_path / "here"):
        path.mkdir(parents=True)
    assert locate_bert("bert-base-uncased", task) == "bert-base-uncased"
    assert locate_bert("./bert", task) == f"{data}/bert"
    assert locate_bert("./here", task) == "./here"
    two = SimpleNamespace(cfg=SimpleNamespace(data=f"{tmp_path / 'here'}:{data}"))
    assert locate_bert("./bert", two) == f"{data}/bert"
    with pytest.raises(BertFusedError, match=r"--bert-model ./other: neither the data directory"):
        locate_bert("./other", task)
