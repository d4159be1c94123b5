"""The hub interface loads quietly, and warns of lines that do not fit the dictionary."""

import logging
import shutil

import pytest
import torch
from documentation import ROOT

from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.models.bert_fused import BertFusedModel
from bert_fused_plugin.models.gru_bahdanau import GruModel

PINNED = ROOT / "tests" / "pinned"
MODELS = [(BertFusedModel, "fused"), (GruModel, "gru")]


@pytest.fixture(params=MODELS, ids=["fused", "gru"])
def hub(request):
    model, name = request.param
    return model.from_pretrained(str(PINNED / name))


@pytest.mark.parametrize(("model", "name"), MODELS)
def test_loading_is_quiet(model, name, caplog):
    before = [logging.getLogger(logger).level for logger in ("fairseq", "bert_fused_plugin")]
    hub = model.from_pretrained(str(PINNED / name))
    assert caplog.messages == []
    assert [logging.getLogger(logger).level for logger in ("fairseq", "bert_fused_plugin")] == before
    assert isinstance(hub.models[0], model)


def test_a_warning_is_shown_though_loading_is_quiet(caplog):
    BertFusedModel.from_pretrained(str(PINNED / "fused"), bert_unchecked=True, bert_mask_special_tokens=True)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert caplog.messages[0].startswith("--bert-unchecked: ")


def test_a_line_that_does_not_fit_the_dictionary_is_warned_of(hub, caplog):
    first, *others = hub.translate(["the old dog", "", " \t\u200b\ufeff\xad", "The old dog"], beam=1, max_len_b=3)
    assert first
    assert len(others) == 3
    assert others[:2] == ["", ""]  # nothing is made up
    assert hub.translate("", beam=1) == ""
    hub.translate("xyz", beam=1, max_len_b=3)
    [message] = caplog.messages
    assert message.startswith("1 of the 3 symbols of a line (33%) are unknown to the source dictionary: 'The' (1 of")


def test_a_line_that_is_skipped_takes_no_translation_of_another(hub):
    how = {"beam": 1, "max_len_b": 3}
    short, other = hub.translate(["the dog", "old"], **how)
    hub.max_positions = (4, 50)
    lines = ["the old dog the old dog", "the dog", "", "old"]
    assert hub.translate(lines, skip_invalid_size_inputs=True, **how) == ["", short, "", other]


@pytest.mark.parametrize(("model", "name"), MODELS)
def test_a_model_computes_in_bfloat16(model, name):
    single, half = model.from_pretrained(str(PINNED / name)), model.from_pretrained(str(PINNED / name)).bfloat16()
    assert {p.dtype for p in single.parameters()} == {torch.float32}
    assert {p.dtype for p in half.parameters()} == {torch.bfloat16}
    [[expected]], [[found]] = (hub.generate([hub.encode("the old dog")], beam=1, max_len_b=1) for hub in (single, half))
    assert found["score"].item() == pytest.approx(expected["score"].item(), rel=0.05, abs=0.05)


def test_bert_moves_with_the_model_and_not_in_the_first_of_several_requests():
    hub = BertFusedModel.from_pretrained(str(PINNED / "fused")).bfloat16()
    assert hub.models[0].encoder.source.bert._frozen.dtype == torch.bfloat16


def test_scores_are_the_same_in_batches_of_few_target_tokens():
    fused = BertFusedModel.from_pretrained(str(PINNED / "fused"))
    sources = ["the dog", "the old dog", "dog", "the"]
    targets = ["dog " * length for length in (9, 1, 3, 2)]
    together = fused.score(sources, targets)
    assert [len(group) for group in fused._groups([torch.zeros(length) for length in (9, 1, 3, 2)])] == [4]
    fused.cfg.dataset.max_tokens = 10
    assert list(fused._groups([torch.zeros(length) for length in (9, 1, 3, 2)])) == [[1, 3, 2], [0]]
    assert fused.score(sources, targets) == pytest.approx(together)
    assert fused.score([], []) == []
    with pytest.raises(BertFusedError, match=r"^score needs two texts, or two lists with a translation for each"):
        fused.score(["the dog"], ["dog the", "the"])
    fused.task.bridge.context = 1  # BERT reads the lines before, which must stay in their order
    assert list(fused._groups([torch.zeros(length) for length in (9, 1, 3, 2)])) == [[0, 1, 2, 3]]


def test_a_model_that_was_trained_with_flags_for_data_sets_translates():
    nowhere = {"bert_text": "/nonexistent", "bert_cache": "/nonexistent"}
    hub = BertFusedModel.from_pretrained(str(PINNED / "fused"), eval_bleu=False, **nowhere)
    assert isinstance(hub.translate("the dog", max_len_b=5), str)


def test_all_white_space_separates_words():
    hub = BertFusedModel.from_pretrained(str(PINNED / "gru"))
    assert hub.tokenize("the\u00a0dog\tsees  it") == "the dog sees  it"  # subword-nmt splits words at spaces only


def test_a_misspelt_setting_of_the_search_is_refused():
    hub = BertFusedModel.from_pretrained(str(PINNED / "fused"), max_len_b=5)
    # nbest would return the first, constraints would mix up the sentences, and load_hub reads retain_dropout
    for name in ("beem", "nbest", "constraints", "retain_dropout"):
        with pytest.raises(BertFusedError, match=f"{name}: no setting of the search"):
            hub.translate(["the dog"], **{name: 3})
    assert hub.translate(["the dog"], lenpen=0.5, verbose=False, skip_invalid_size_inputs=True)


def test_a_directory_that_is_not_there_is_named_in_full(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BertFusedError, match=f"^{tmp_path}/my-model does not exist; give what bert-fused-export wrote"):
        BertFusedModel.from_pretrained("my-model")
    with pytest.raises(BertFusedError, match="is a checkpoint; give its directory, and checkpoint_file="):
        BertFusedModel.from_pretrained("my-model/model.pt")
    monkeypatch.setenv("HOME", str(PINNED))
    assert BertFusedModel.from_pretrained("~/fused").translate("the dog", max_len_b=5)
    with pytest.raises(BertFusedError, match=f"^{tmp_path}/my-data does not exist"):
        BertFusedModel.from_pretrained(str(PINNED / "fused"), data_name_or_path="my-data")


def of_a_plugin(name, path, model="bert_fused", task="translation"):
    """Write a copy of a pinned model whose checkpoint names another architecture and another task."""
    shutil.copytree(PINNED / name, path, dirs_exist_ok=True)
    state = torch.load(path / "model.pt", weights_only=False)
    vars(state["cfg"]["model"]).update(arch=model, _name=model)
    state["cfg"]["task"]["_name"] = task
    state["cfg"]["common"]["user_dir"] = "their/plugin"
    torch.save(state, path / "model.pt")
    return str(path)


@pytest.mark.parametrize(("model", "name"), MODELS)
def test_a_model_of_a_plugin_that_is_not_imported_is_named(model, name, tmp_path):
    rule = "model.pt was trained with --arch theirs, which is unknown; give its plug-in: --user-dir their/plugin$"
    with pytest.raises(BertFusedError, match=rf"^{tmp_path}/{rule}"):
        model.from_pretrained(of_a_plugin(name, tmp_path, model="theirs"))


def test_another_error_of_fairseq_stays_its_own(tmp_path):
    with pytest.raises((AssertionError, KeyError)):
        BertFusedModel.from_pretrained(of_a_plugin("fused", tmp_path, task="theirs"))


def test_a_translation_to_score_is_tokenised_by_the_rules_of_its_language(tmp_path):
    shutil.copytree(PINNED / "fused", tmp_path, dirs_exist_ok=True)
    shutil.copy(tmp_path / "dict.de.txt", tmp_path / "dict.fr.txt")
    shutil.copy(tmp_path / "dict.en.txt", tmp_path / "dict.it.txt")
    hub = BertFusedModel.from_pretrained(str(tmp_path), tokenizer="moses", source_lang="it")
    assert hub.tokenize("l'uomo") == "l&apos; uomo"
    hub = BertFusedModel.from_pretrained(str(tmp_path), tokenizer="moses", target_lang="fr")
    ids = hub.tgt_dict.encode_line("the l&apos; dog", add_if_not_exist=False)
    assert hub.tokenize("l'homme") == "l &apos;homme"
    assert hub._encode_target("the l'dog").tolist() == ids.tolist()
    assert hub.score("the dog", "the l'dog") < 0


def test_words_that_moses_split_are_whole_in_a_translation_as_in_the_report():
    hub = BertFusedModel.from_pretrained(str(PINNED / "fused"), tokenizer="moses")
    assert hub.detokenize("wie geht &apos; s ?") == "wie geht's?"
