"""Every class of pre-trained model that docs/encoders.md names is trained, resumed, translated, cached and exported."""

from pathlib import Path

import pytest
from helpers import LINES
from in_process import Model, binarised, train
from language_models import LANGUAGES, MAKERS, save_language_model
from workspace import TINY

from bert_fused_lab.exporting.export_model import export_model
from bert_fused_plugin.models.bert_fused import BertFusedModel


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A small data-bin."""
    return binarised(tmp_path_factory.mktemp("data"), train=40, valid=5, test=10)


def translate(hub):
    best = [h[0] for h in hub.generate([hub.encode(line) for line in LINES], beam=2, max_len_b=8)]
    return [(hub.decode(h["tokens"]), h["score"].item()) for h in best]


@pytest.mark.parametrize("name", MAKERS)
def test_the_class_works_from_the_training_to_the_exported_model(name, data, tmp_path, caplog):
    bert_dir, cache = tmp_path / "model", ["--bert-cache", tmp_path / "cache", "--bert-cache-dtype", "fp32"]
    save_language_model(name, bert_dir)
    options = ["--bert-tokenizer-options", LANGUAGES[name]] if name in LANGUAGES else []
    flags = ["--arch", "bert_fused", *TINY, "--bert-model", bert_dir, *options, *cache]
    train(data, tmp_path / "save", *flags, "--max-update", "2")
    checkpoint = tmp_path / "save" / "checkpoint_last.pt"
    trained = Model(data, checkpoint)
    assert len(trained.default.best("H")) == 10
    assert trained.default.scores() == pytest.approx(trained.generate(*cache).scores(), abs=1e-4)
    caplog.clear()
    train(data, tmp_path / "save", *flags, "--max-update", "4")
    assert "resumed" in caplog.text or "(epoch 1 @ 2 updates)" in caplog.text
    export_model(checkpoint, data, tmp_path / "exported", with_bert=True)
    before = BertFusedModel.from_pretrained(str(tmp_path / "save"), "checkpoint_last.pt", data)
    bert_dir.rename(tmp_path / "gone")
    assert translate(BertFusedModel.from_pretrained(str(tmp_path / "exported"))) == translate(before)


def test_a_model_of_raw_text_says_what_it_reads_when_it_is_exported_and_loaded(data, tmp_path, bert_dir, caplog):
    flags = ["--arch", "bert_fused", *TINY, "--bert-model", bert_dir, "--bert-text", Path(data).parent]
    train(data, tmp_path / "save", *flags, "--max-update", "1")
    said = "trained with --bert-text, which is not given now, so BERT reads other input; translate data instead of"
    assert said not in caplog.text
    export_model(tmp_path / "save" / "checkpoint_last.pt", data, tmp_path / "exported", with_bert=True)
    assert said in caplog.text
    for place in ([tmp_path / "exported"], [tmp_path / "save", "checkpoint_last.pt", data]):
        caplog.clear()
        BertFusedModel.from_pretrained(*map(str, place))
        assert said in caplog.text
