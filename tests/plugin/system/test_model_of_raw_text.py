"""A model whose BERT read raw text says so wherever it is loaded without that text."""

from in_process import binarised, train
from workspace import TINY

from bert_fused_lab.exporting.export_model import export_model
from bert_fused_plugin.models.bert_fused import BertFusedModel


def test_a_model_of_raw_text_says_what_it_reads_when_it_is_exported_and_loaded(tmp_path, bert_dir, caplog):
    data = binarised(tmp_path, train=40, valid=5)
    flags = ["--arch", "bert_fused", *TINY, "--bert-model", bert_dir, "--bert-text", tmp_path]
    train(data, tmp_path / "save", *flags, "--max-update", "1")
    said = "trained with --bert-text, which is not given now, so BERT reads other input; translate data instead of"
    assert said not in caplog.text
    export_model(tmp_path / "save" / "checkpoint_last.pt", data, tmp_path / "exported", with_bert=True)
    assert said in caplog.text
    for place in ([tmp_path / "exported"], [tmp_path / "save", "checkpoint_last.pt", data]):
        caplog.clear()
        BertFusedModel.from_pretrained(*map(str, place))
        assert said in caplog.text
