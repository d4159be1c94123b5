"""bert-fused-export: the exported tokenizer treats hyphens as the text of the source dictionary was treated."""

from types import SimpleNamespace

import pytest
from helpers import dictionary_of
from random_checkpoints import save_model

from bert_fused_plugin.exporting.model_directory import export_model
from bert_fused_plugin.models.gru_bahdanau import GruModel

pytestmark = pytest.mark.system
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
    (tmp_path / "data").mkdir()
    for lang in ("en", "de"):
        dictionary_of(*symbols).save(str(tmp_path / "data" / f"dict.{lang}.txt"))
    data = str(tmp_path / "data")
    checkpoint = save_model(SimpleNamespace(data=data), tmp_path / "old.pt", "gru_seq2seq")
    export_model(checkpoint, data, tmp_path / "new", tokenizer={"_name": "moses", **given})
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    warnings = [warning for warning in warnings if "without its subword tool" not in warning]
    assert [warning.endswith(str(says)) for warning in warnings] == ([True] if says else [])
    assert GruModel.from_pretrained(str(tmp_path / "new")).tokenize("well-dressed") == expected
    readme = (tmp_path / "new" / "README.en-de.md").read_text(encoding="utf-8")
    assert ("--moses-no-dash-splits" in readme) == (expected == "well-dressed")
