import copy
import gc
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from fairseq.dataclass.configs import EMAConfig
from fairseq.models.ema import build_ema
from helpers import assert_close, needs_half
from language_models import save_language_model
from torch import nn
from transformers import AutoConfig, AutoModel

from bert_fused_plugin.bert.finetuned_bert import FinetunedBert
from bert_fused_plugin.bert.frozen_bert import FrozenBert
from bert_fused_plugin.bert.pretrained_bert import count_positions, load_tokenizer
from bert_fused_plugin.data.dictionary_bridge import BERT_PAD
from bert_fused_plugin.errors import BertFusedError

TOKENS = torch.tensor([[2, 5, 6, 7, 3], [2, 9, 3, BERT_PAD, BERT_PAD]])


@pytest.fixture
def bert(bert_dir):
    return FrozenBert.from_pretrained(bert_dir)


def test_it_stays_in_evaluation_mode_without_gradient(bert):
    parent = nn.Sequential(bert, nn.Linear(2, 2)).train()
    assert not bert.model.training
    assert not any(parameter.requires_grad for parameter in bert.model.parameters())
    assert not bert(TOKENS).requires_grad
    assert_close(bert(TOKENS), bert(TOKENS))
    assert len(list(parent.parameters())) == 2


def tensors(model):
    return dict((*model.named_parameters(), *model.named_buffers()))


@pytest.mark.parametrize(
    ("bert", "kind", "kept"),
    [
        (FrozenBert, "T5", ".wo.weight"),
        (FrozenBert, "Llama", "inv_freq"),
        (FinetunedBert, "Llama", "inv_freq"),
        (FinetunedBert, "T5", None),
    ],
)
@needs_half
def test_what_transformers_keeps_in_single_precision_stays_so_or_is_refused(tmp_path, bert, kind, kept):
    """T5 would clamp the states that half precision cannot hold, and far positions would turn by another angle."""
    save_language_model(kind, tmp_path)
    before, after = (bert.from_pretrained(str(tmp_path)) for _ in range(2))
    with nullcontext() if kept else pytest.raises(BertFusedError, match="use --bf16"):
        before, after = tensors(before.model), tensors(after.half().model)
        found = {name for name, tensor in after.items() if tensor.dtype == torch.float32}
        assert found == {name for name in after if f".{name}".endswith(kept)} != set()
        assert all(torch.equal(before[name], after[name]) for name in found)


def pointers(bert):
    return [tensor.data_ptr() for tensor in (*bert._frozen.parameters(), *bert._frozen.buffers())]


def test_a_move_waits_until_the_model_is_asked_for(bert):
    """So a device gets no BERT if all states come from the cache."""
    before = pointers(bert)
    parent = nn.Sequential(bert, nn.Linear(2, 2)).double()
    assert parent[1].weight.dtype == torch.double
    assert bert._frozen.dtype == torch.float
    assert pointers(bert) == before
    moved = AutoModel.from_pretrained(bert.name).double().eval()
    assert_close(bert(TOKENS[:1]), moved(TOKENS[:1]).last_hidden_state.detach())
    assert bert.model.dtype == torch.double


def test_members_of_an_ensemble_hold_one_model_also_after_a_move(bert, bert_dir):
    lower = FrozenBert.from_pretrained(bert_dir, layers="1")
    same, expected = FrozenBert.from_pretrained(bert_dir), lower(TOKENS)
    assert not same.is_same(bert)
    for member in (same, lower):
        member.share(bert)
        assert member.model is bert.model
    assert same.is_same(bert)
    assert not lower.is_same(bert)
    assert_close(lower(TOKENS), expected)
    for member in (bert, same, lower):
        member.double()
    assert (lower.model is bert.model, lower.model.dtype) == (True, torch.double)
    assert len(list(nn.Sequential(bert, same).parameters())) == 0


def test_a_copy_shares_the_weights_until_one_is_moved(bert):
    parent = nn.Sequential(bert, nn.Linear(2, 2)).eval()
    expected = bert(TOKENS)
    twin = copy.deepcopy(parent)
    assert twin[1].weight.data_ptr() != parent[1].weight.data_ptr()
    assert pointers(twin[0]) == pointers(bert)
    twin.double()
    assert twin[0](TOKENS)[0].dtype == torch.double
    assert bert.model.dtype == torch.float
    assert_close(bert(TOKENS), expected)


def test_a_copy_makes_the_moves_that_wait(bert):
    twin = copy.deepcopy(nn.Sequential(bert).double())[0]
    assert (bert._frozen.dtype, twin._frozen.dtype) == (torch.float, torch.float)
    assert twin.model.dtype == torch.double
    assert bert._frozen.dtype == torch.float
    assert bert.model.dtype == torch.double


def test_fairseqs_ema_has_no_weights_of_bert_of_its_own(bert):
    ema = build_ema(nn.Sequential(bert, nn.Linear(2, 2)), EMAConfig(store_ema=True, ema_fp32=True), torch.device("cpu"))
    assert pointers(ema.get_model()[0]) == pointers(bert)
    assert set(ema.fp32_params) == {"1.weight", "1.bias"}


def test_roberta_has_fewer_positions_than_embeddings():
    from transformers import RobertaConfig, RobertaModel

    size = {"vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = RobertaConfig(**size, intermediate_size=8, max_position_embeddings=18, pad_token_id=1)
    bert = FrozenBert(RobertaModel(config))
    assert bert.max_positions == 16
    bert(torch.randint(3, 20, (1, 16)))  # the longest that fits
    with pytest.raises((IndexError, RuntimeError)):
        bert(torch.randint(3, 20, (1, 17)))


@pytest.mark.parametrize("load", [FrozenBert.from_pretrained, load_tokenizer])
def test_a_missing_model_is_named_with_a_remedy(load, tmp_path):
    with pytest.raises(BertFusedError, match=r"--bert-model '.*nowhere': no such directory; give an existing"):
        load(str(tmp_path / "nowhere"))
    with pytest.raises(BertFusedError, match=r"--bert-model 'no-such-model-anywhere' cannot be loaded; give a local"):
        load("no-such-model-anywhere")
    with pytest.raises(BertFusedError, match=r"the directory must hold config.json"):
        load(str(tmp_path))


def test_missing_weights_are_refused_not_drawn_at_random(copied):
    with pytest.raises(BertFusedError, match=r"16 of its weights are missing \(encoder.layer.2.*give a complete"):
        FrozenBert.from_pretrained(copied(num_hidden_layers=3))


def test_a_model_without_a_pooler_is_complete(copied):
    FrozenBert.from_pretrained(copied(lambda weights: {k: v for k, v in weights.items() if "pooler" not in k}))


def test_of_an_encoder_decoder_only_the_encoder_is_kept(tmp_path):
    def decoders():
        gc.collect()
        return sum(type(item).__name__ == "MBartDecoder" for item in gc.get_objects())

    save_language_model("mBART", tmp_path)
    before = decoders()  # other tests may keep some
    bert = FrozenBert.from_pretrained(str(tmp_path))
    assert bert.depth == 3
    assert decoders() == before


@pytest.mark.parametrize(("types", "reads"), [(1, False), (2, True)])
def test_token_types_are_read_where_there_are_two(bert_dir, types, reads):
    torch.manual_seed(0)
    config = AutoConfig.from_pretrained(bert_dir)
    config.type_vocab_size = types
    bert = FrozenBert(AutoModel.from_config(config))
    assert bert.reads_segments is reads
    one, other = (bert(TOKENS[:1], torch.full((1, 5), segment)) for segment in (0, types - 1))
    assert bool((one != other).any()) is reads


@pytest.mark.parametrize(
    ("name", "positions"), [("max_position_embeddings", 40), ("n_positions", 50), ("other", 10**6)]
)
def test_without_position_embeddings_the_configuration_tells_their_number(name, positions):
    model = nn.Module()
    model.config = SimpleNamespace(to_dict=lambda: {name: positions})
    assert count_positions(model) == positions
