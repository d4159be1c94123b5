"""An exported model has the subword tool and the tokenizer of its training, and is refused with another tool."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from fairseq.data.encoders.gpt2_bpe_utils import bytes_to_unicode
from helpers import dictionary_of
from in_process import command
from random_checkpoints import gone, save_model
from slow_tokenizers import sentencepiece_model
from subword_nmt.apply_bpe import BPE

from bert_fused_lab.exporting.export_model import export_model, text_form
from bert_fused_plugin.errors import BertFusedError, flag_name
from bert_fused_plugin.models.bert_fused import BertFusedModel
from bert_fused_plugin.models.gru_bahdanau import GruModel
from bert_fused_plugin.models.hub import load_hub


def data_of(folder, symbols):
    """Write dictionaries of *symbols*; return the folder as a workspace's."""
    folder.mkdir()
    for lang in ("en", "de"):
        dictionary_of(*symbols).save(str(folder / f"dict.{lang}.txt"))
    return SimpleNamespace(data=str(folder))


@pytest.fixture
def pieces(workspace, tmp_path):
    """A sentencepiece model, and a workspace whose dictionary is the model's."""
    lines = (workspace.path / "train.en").read_text(encoding="utf-8").splitlines()
    model, symbols = sentencepiece_model(tmp_path / "sp", lines, vocab_size=30)
    return SimpleNamespace(**vars(data_of(tmp_path / "data", symbols)), model=Path(model))


def test_sentencepiece_is_used_without_being_asked_for(pieces, tmp_path, caplog):
    checkpoint = save_model(pieces, tmp_path / "old.pt", "gru_dot")
    export_model(checkpoint, pieces.data, tmp_path / "new", {"sentencepiece": pieces.model})
    assert "subword marks" not in caplog.text
    hub = GruModel.from_pretrained(str(tmp_path / "new"))
    assert hub.apply_bpe("the dog").startswith("\u2581")
    assert len(hub.translate(["the dog"], max_len_b=4)) == 1
    assert hub.translate(["\u200b", "\ufeff "], max_len_b=4) == ["", ""]  # of which sentencepiece leaves nothing
    plain = tmp_path / "plain"
    export_model(checkpoint, pieces.data, plain)
    assert "it translates only text that is split already; give --codes or --sentencepiece-model" in caplog.text
    hub = GruModel.from_pretrained(str(plain), bpe="sentencepiece", sentencepiece_model=str(pieces.model))
    assert hub.remove_bpe("▁a <0xC3> <0x9F> ▁b") == "aß b"
    assert hub.apply_bpe("the dog").startswith("\u2581")


@pytest.mark.parametrize(
    ("bpe", "language", "form"),
    [
        (None, "zh", "text in the form of the training text, such as in subwords"),
        ("subword_nmt", "zh", "text whose words are separated by spaces as in the training text"),
        ("subword_nmt", "en", "raw text"),
        ("sentencepiece", "zh", "raw text"),
        ("byte_bpe", "zh", "raw text"),
    ],
)
def test_the_readme_says_which_text_the_model_translates(bpe, language, form):
    assert text_form({"bpe": bpe and {"_name": bpe}}, language) == form


@pytest.mark.parametrize(
    ("bpe", "setting", "name"),
    [("byte_bpe", "sentencepiece_model_path", "byte_bpe.model"), ("fastbpe", "bpe_codes", "bpecodes")],
)
def test_files_of_other_tools_are_taken_along(pieces, tmp_path, monkeypatch, bpe, setting, name):
    content = pieces.model.read_bytes()

    def fast(codes):  # fastBPE itself needs a compiler
        assert Path(codes).read_bytes() == content
        return SimpleNamespace(apply=lambda lines: lines)

    monkeypatch.setitem(sys.modules, "fastBPE", SimpleNamespace(fastBPE=fast))
    trained = {"bpe": bpe, setting: str(pieces.model)}
    checkpoint = save_model(pieces, tmp_path / "old.pt", "gru_dot", **trained)
    export_model(checkpoint, pieces.data, tmp_path / "new")
    flags = f"--bpe {bpe} --{setting.replace('_', '-')} DIR/{name}"
    assert flags in (tmp_path / "new" / "README.en-de.md").read_text(encoding="utf-8")
    with gone(pieces.model):
        hub = GruModel.from_pretrained(str(tmp_path / "new"))
    assert hub.remove_bpe(hub.apply_bpe("the dog")).strip() == "the dog"


def test_a_file_that_cannot_be_taken_along_is_an_error(pieces, tmp_path):
    trained = {"bpe": "bert", "bpe_vocab_file": str(pieces.model)}
    checkpoint = save_model(pieces, tmp_path / "old.pt", "gru_dot", **trained)
    with pytest.raises(BertFusedError, match=r"^--bpe bert --bpe-vocab-file .*sp.model: an exported model cannot have"):
        export_model(checkpoint, pieces.data, tmp_path / "new")


def test_a_subword_tool_that_splits_otherwise_is_refused(workspace, pieces, codes, tmp_path):
    """Wrong codes, a sentencepiece model in place of codes, and the other way round, and files of other kinds."""
    old = {"words": save_model(workspace, tmp_path / "words.pt", "gru_dot")}
    old["pieces"] = save_model(pieces, tmp_path / "pieces.pt", "gru_dot")
    (tmp_path / "other.en").write_text("der Hund und der Mann\n" * 20, encoding="utf-8")
    (tmp_path / "other-codes").write_text("#version: 0.2\nt h\no g</w>\n", encoding="utf-8")
    (tmp_path / "empty").touch()
    restores = r"restores [\d.]+% of the source sentences of the data, and at least 90% are needed: '.+' becomes"
    for trained, kind, file, message in (
        ("words", "subword_nmt", tmp_path / "other-codes", restores),
        ("words", "subword_nmt", tmp_path / "other.en", "cannot be read as what the flag is for"),
        ("words", "subword_nmt", pieces.model, "cannot be read as what the flag is for"),
        ("words", "sentencepiece", pieces.model, restores),
        ("pieces", "sentencepiece", codes, "cannot be read as what the flag is for"),
        ("pieces", "sentencepiece", tmp_path / "empty", "cannot be read as what the flag is for"),
    ):
        data = workspace.data if trained == "words" else pieces.data
        flag = {"subword_nmt": "--codes", "sentencepiece": "--sentencepiece-model"}[kind]
        with pytest.raises(BertFusedError, match=f"{flag} {file} {message}"):
            export_model(old[trained], data, tmp_path / "new", {kind: file})
        assert not (tmp_path / "new").exists()


def model_of(workspace, folder):
    """Save a model of the data ``valid.en`` and ``valid.de`` in *folder*; return it and its data-bin."""
    workspace.run(
        "fairseq-preprocess", "-s", "en", "-t", "de", "--trainpref", "valid", "--validpref", "valid",
        "--joined-dictionary", "--destdir", folder / "data", cwd=folder,
    )  # fmt: skip
    data = str(folder / "data")
    return save_model(SimpleNamespace(data=data), folder / "old.pt", "gru_dot"), data


def test_a_tool_with_more_pieces_than_the_dictionary_is_refused(workspace, codes, tmp_path):
    """It restores every word of the dictionary, but of the words that were split it makes pieces without an id."""
    few = tmp_path / "few"
    few.write_text("".join(codes.read_text(encoding="utf-8").splitlines(keepends=True)[:12]), encoding="utf-8")
    split = BPE(few.open(encoding="utf-8"))
    for lang in ("en", "de"):
        text = (workspace.path / f"train.{lang}").read_text(encoding="utf-8").replace("@@", "")
        lines = "".join(split.process_line(line) for line in text.splitlines(keepends=True))
        (tmp_path / f"valid.{lang}").write_text(lines, encoding="utf-8")
    checkpoint, data = model_of(workspace, tmp_path)
    export_model(checkpoint, data, tmp_path / "new", {"subword_nmt": few})
    with pytest.raises(BertFusedError, match=r"restores [\d.]+% of the source sentences of the data, and at least 90%"):
        export_model(checkpoint, data, tmp_path / "other", {"subword_nmt": codes})


def test_a_tool_that_splits_the_tags_of_languages_is_warned_of(workspace, codes, tmp_path, caplog):
    for lang, tag in (("en", "<2de> "), ("de", "")):
        lines = (workspace.path / f"train.{lang}").read_text(encoding="utf-8").splitlines()
        (tmp_path / f"valid.{lang}").write_text("".join(f"{tag}{line}\n" for line in lines), encoding="utf-8")
    checkpoint, data = model_of(workspace, tmp_path)
    export_model(checkpoint, data, tmp_path / "new", {"subword_nmt": codes})
    [warning] = [message for message in caplog.messages if "splits the tags" in message]
    assert "such as <2de>, so the exported model translates only text that is split already" in warning
    (tmp_path / "other-codes").write_text("#version: 0.2\nt h\no g</w>\n", encoding="utf-8")
    with pytest.raises(BertFusedError, match="of the source sentences of the data, and at least 90% are needed"):
        export_model(checkpoint, data, tmp_path / "newer", {"subword_nmt": tmp_path / "other-codes"})


def test_what_the_training_named_is_taken_where_nothing_is_given(workspace, codes, tmp_path):
    text = {"bpe": "subword_nmt", "bpe_codes": str(codes), "bpe_separator": "@@", "tokenizer": "space"}
    flags = {**text, "encoder_embed_path": str(tmp_path / "vectors")}
    (tmp_path / "vectors").write_text("1 8\nthe 1 2 3 4 5 6 7 8\n", encoding="utf-8")
    checkpoint = save_model(workspace, tmp_path / "old.pt", "transformer", task="translation", **flags)
    (tmp_path / "vectors").unlink()  # training has read it
    export_model(checkpoint, workspace.data, tmp_path / "new")
    assert (tmp_path / "new" / "bpecodes").read_bytes() == codes.read_bytes()
    hub = load_hub(str(tmp_path / "new"))
    assert hub.encode("playhouse   the").tolist()[-2:] == [hub.src_dict.index("the"), hub.src_dict.eos()]
    assert len(hub.apply_bpe("playhouse").split()) > 1
    with gone(codes), pytest.raises(BertFusedError, match=r"--codes .*codes: no such file; give the one that"):
        export_model(checkpoint, workspace.data, tmp_path / "newer")


@pytest.mark.parametrize(("bpe", "switches", "symbols", "merges"), [
    ("gpt2", {}, "gpt2_encoder_json encoder.json", "gpt2_vocab_bpe vocab.bpe"),
    ("hf_byte_bpe", {}, "bpe_vocab vocab.json", "bpe_merges merges.txt"),
    ("hf_byte_bpe", {"bpe_add_prefix_space": True}, "bpe_vocab vocab.json", "bpe_merges merges.txt"),
])  # fmt: skip
def test_numbers_take_the_files_along_that_bert_needs_too(
    workspace, bert_dir, tmp_path, bpe, switches, symbols, merges
):
    alphabet = {character: i for i, character in enumerate(bytes_to_unicode().values())}
    (tmp_path / "given.json").write_text(json.dumps({**alphabet, "th": 256, "the": 257}), encoding="utf-8")
    (tmp_path / "given.bpe").write_text("#version: 0.2\nt h\nth e\n", encoding="utf-8")
    (setting, name), (other_setting, other_name) = symbols.split(), merges.split()
    files = {setting: str(tmp_path / "given.json"), other_setting: str(tmp_path / "given.bpe")}
    data = data_of(tmp_path / "data", [*map(str, range(258))])
    checkpoint = save_model(data, tmp_path / "old.pt", "bert_fused", bert_model=bert_dir, bpe=bpe, **switches, **files)
    export_model(checkpoint, data.data, tmp_path / "new", with_bert=True)
    names = " ".join([bpe, *map(flag_name, switches)])
    flags = (
        f"--bpe {names} --{setting.replace('_', '-')} DIR/{name} --{other_setting.replace('_', '-')} DIR/{other_name}"
    )
    assert flags in (tmp_path / "new" / "README.en-de.md").read_text(encoding="utf-8")
    with gone(tmp_path / "given.json", tmp_path / "given.bpe", tmp_path / "data"):
        hub = BertFusedModel.from_pretrained(str(tmp_path / "new"))
        assert hub.apply_bpe("the dog").split().index("257") == len(switches)
        assert hub.models[0].encoder.source.bridge.text(hub.encode("the dög")) == "the dög"
        assert isinstance(hub.translate("the dog", max_len_b=4), str)
        paths = ["--path", tmp_path / "new" / "model.pt", *flags.replace("DIR", str(tmp_path / "new")).split()]
        assert "\nH-0" in command("interactive", tmp_path / "new", *paths, "--max-len-b", 4, "--cpu", text="the dog\n")
    with gone(tmp_path / "given.json"), pytest.raises(BertFusedError, match=f"--bpe {bpe} .*given.json: no such file"):
        export_model(checkpoint, data.data, tmp_path / "newer", with_bert=True)


# the tokenizer treats hyphens as the text of the source dictionary was treated

WHOLE, SPLIT = ["well@@", "-@@", "dressed"], ["well", "@-@", "dressed"]


@pytest.mark.parametrize(
    ("symbols", "given", "expected", "says"),
    [
        (WHOLE, {}, "well-dressed", "add --moses-no-dash-splits, which the exported model has now"),
        (WHOLE, {"moses_no_dash_splits": True}, "well-dressed", None),
        (SPLIT, {"moses_no_dash_splits": False}, "well @-@ dressed", None),
        (SPLIT, {"moses_no_dash_splits": True}, "well-dressed", "leave --moses-no-dash-splits out"),
        (["men"], {}, "well @-@ dressed", None),
    ],
)
def test_hyphens_are_treated_as_the_dictionary_shows(tmp_path, caplog, symbols, given, expected, says):
    place = data_of(tmp_path / "data", symbols)
    checkpoint = save_model(place, tmp_path / "old.pt", "gru_seq2seq")
    export_model(checkpoint, place.data, tmp_path / "new", tokenizer={"_name": "moses", **given})
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    warnings = [warning for warning in warnings if "without its subword tool" not in warning]
    assert [warning.endswith(str(says)) for warning in warnings] == ([True] if says else [])
    assert GruModel.from_pretrained(str(tmp_path / "new")).tokenize("well-dressed") == expected
    readme = (tmp_path / "new" / "README.en-de.md").read_text(encoding="utf-8")
    assert ("--moses-no-dash-splits" in readme) == (expected == "well-dressed")


def test_an_export_of_moses_text_without_a_tokenizer_is_warned_of(tmp_path, caplog):
    for symbols, times in ((["&apos;s", "well"], 1), (["well"], 0)):
        caplog.clear()
        place = data_of(tmp_path / symbols[0], symbols)
        checkpoint = save_model(place, tmp_path / "old.pt", "gru_seq2seq")
        export_model(checkpoint, place.data, tmp_path / f"new {times}")
        assert caplog.text.count("text that is tokenised already; give --tokenizer moses") == times
