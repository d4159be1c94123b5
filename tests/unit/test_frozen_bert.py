import copy

import pytest
import torch
from helpers import assert_close
from torch import nn
from transformers import AutoModel

from bert_fused_plugin.data.collate import BERT_PAD
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.modules.frozen_bert import FrozenBert, load_tokenizer

TOKENS = torch.tensor([[2, 5, 6, 7, 3], [2, 9, 3, BERT_PAD, BERT_PAD]])


@pytest.fixture
def bert(bert_dir):
    return FrozenBert.from_pretrained(bert_dir)


def test_states_are_those_of_the_hugging_face_model(bert, bert_dir):
    bert_out, bert_padding_mask = bert(TOKENS)
    assert bert_padding_mask.tolist() == [[False] * 5, [False] * 3 + [True] * 2]
    reference = AutoModel.from_pretrained(bert_dir).eval()
    for row, length in ((0, 5), (1, 3)):
        alone = reference(TOKENS[row : row + 1, :length]).last_hidden_state[0]
        assert_close(bert_out[row, :length], alone.detach(), atol=1e-5)


def test_it_stays_in_evaluation_mode_without_gradient(bert):
    parent = nn.Sequential(bert, nn.Linear(2, 2)).train()
    assert not bert.model.training
    assert not any(parameter.requires_grad for parameter in bert.model.parameters())
    assert not bert(TOKENS)[0].requires_grad
    assert_close(bert(TOKENS)[0], bert(TOKENS)[0])
    assert len(list(parent.parameters())) == 2


def test_it_is_not_saved_and_not_missed(bert):
    parent = nn.Sequential(bert, nn.Linear(2, 2))
    assert set(parent.state_dict()) == {"1.weight", "1.bias"}
    parent.load_state_dict(parent.state_dict(), strict=True)


def test_moves_and_copies_reach_it(bert):
    parent = nn.Sequential(bert)
    assert parent.double()[0](TOKENS)[0].dtype == torch.double
    assert parent.half()[0].model.dtype == torch.half
    twin = copy.deepcopy(parent)
    assert twin[0].model is not parent[0].model


def test_it_knows_its_sizes(bert):
    assert bert.dim == 12
    assert bert.max_positions == 32
    assert bert.num_parameters == sum(parameter.numel() for parameter in bert.model.parameters())


def test_roberta_has_fewer_positions_than_embeddings():
    from transformers import RobertaConfig, RobertaModel

    config = RobertaConfig(
        vocab_size=20,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=18,
        pad_token_id=1,
    )
    bert = FrozenBert(RobertaModel(config))
    assert bert.max_positions == 16
    bert(torch.randint(3, 20, (1, 16)))  # the longest that fits
    with pytest.raises((IndexError, RuntimeError)):
        bert(torch.randint(3, 20, (1, 17)))


def test_loading_prints_nothing(bert_dir, capfd):
    FrozenBert.from_pretrained(bert_dir)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("load", [FrozenBert.from_pretrained, load_tokenizer])
def test_a_missing_model_is_named_with_a_remedy(load, tmp_path):
    with pytest.raises(
        BertFusedError, match=r"--bert-model '.*nowhere' cannot be loaded; give a local model directory"
    ):
        load(str(tmp_path / "nowhere"))
    with pytest.raises(BertFusedError, match=r"the directory must hold config.json"):
        load(str(tmp_path))
