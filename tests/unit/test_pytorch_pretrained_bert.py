"""A BERT in the files of pytorch_pretrained_bert is read as it is, and written as a Hugging Face directory."""

import json

import pytest
import torch
from helpers import assert_close
from transformers import AutoModel, AutoTokenizer, BertConfig, BertModel

from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.importing.pytorch_pretrained_bert import (
    is_hugging_face,
    read_bert_directory,
    write_hugging_face,
)

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "ein", "mann", "mädchen", "##s"]
TOKENS = torch.tensor([[2, 5, 6, 8, 3]])
SIZES = {
    "vocab_size": len(PIECES),
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 12,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-3,
}


@pytest.fixture
def bert():
    torch.manual_seed(0)
    return BertModel(BertConfig(**SIZES)).eval()


@pytest.fixture(params=["", "bert."])
def directory(bert, tmp_path, request):
    """A BERT by its old names, as the encoder alone, or with the heads of the pre-training."""
    state = {}
    for name, value in bert.state_dict().items():
        old = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
        state[request.param + old] = value
    if request.param:
        state["cls.predictions.bias"] = torch.zeros(len(PIECES))
    state[f"{request.param}embeddings.position_ids"] = torch.arange(12)[None]
    folder = tmp_path / "old"
    folder.mkdir()
    torch.save(state, folder / "pytorch_model.bin")
    (folder / "bert_config.json").write_text(json.dumps({**SIZES, "unheard_of": 1}), encoding="utf-8")
    (folder / "vocab.txt").write_bytes("".join(f"{piece} \r\n" for piece in PIECES).encode("utf-8"))
    return folder


def states(model):
    with torch.no_grad():
        return model.eval()(TOKENS).last_hidden_state


def test_the_configuration_may_have_its_later_name_but_the_old_one_counts(bert, directory):
    (directory / "bert_config.json").rename(directory / "config.json")
    assert_close(states(read_bert_directory(directory)), states(bert), atol=0)
    (directory / "config.json").rename(directory / "bert_config.json")
    (directory / "config.json").write_text("{}", encoding="utf-8")
    assert_close(states(read_bert_directory(directory)), states(bert), atol=0)


@pytest.mark.parametrize("lower_case", [True, False])
def test_written_anew_it_is_a_hugging_face_directory(bert, directory, tmp_path, lower_case):
    write_hugging_face(read_bert_directory(directory), directory, tmp_path / "new", lower_case=lower_case)
    assert is_hugging_face(tmp_path / "new")
    assert_close(states(AutoModel.from_pretrained(tmp_path / "new")), states(bert), atol=0)
    assert_close(states(read_bert_directory(tmp_path / "new")), states(bert), atol=0)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "new")
    assert tokenizer.tokenize("ein Manns") == (["ein", "mann", "##s"] if lower_case else ["ein", "[UNK]"])
    assert tokenizer.model_max_length == 12
    assert (tmp_path / "new" / "vocab.txt").read_text(encoding="utf-8").split("\n") == [*PIECES, ""]


@pytest.mark.parametrize(
    ("gone", "message"),
    [
        (["pytorch_model.bin", "vocab.txt"], r"has no pytorch_model\.bin and no vocab\.txt; give the BERT"),
        (["bert_config.json"], r"has no bert_config\.json; give"),
        ([], r"nowhere has no bert_config.json and no .*; give the BERT"),
    ],
)
def test_all_missing_files_are_named(directory, gone, message):
    for name in gone:
        (directory / name).unlink()
    with pytest.raises(BertFusedError, match=rf"--bert .*{message}"):
        read_bert_directory(directory if gone else directory / "nowhere")


@pytest.mark.parametrize(
    ("damage", "message"), [({"hidden_size": 16}, "size mismatch"), ({"num_hidden_layers": 3}, "missing or unknown")]
)
def test_weights_that_do_not_fit_the_configuration_are_refused(directory, damage, message):
    (directory / "bert_config.json").write_text(json.dumps({**SIZES, **damage}), encoding="utf-8")
    with pytest.raises(BertFusedError, match=f"(?s)--bert .* cannot be used .*{message}"):
        read_bert_directory(directory)
