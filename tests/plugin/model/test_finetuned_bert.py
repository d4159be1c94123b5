"""BERT trains with the model: which parameters, how fast, and how it is saved."""

import copy
import threading

import pytest
import torch
from helpers import assert_close, encode, pad
from transformers import (
    AlbertConfig,
    AlbertModel,
    AutoModel,
    GPT2Config,
    GPT2Model,
    LongformerConfig,
    LongformerModel,
    M2M100Config,
    M2M100Model,
)
from warm_start_helpers import logits

from bert_fused_plugin.bert import finetuned_bert
from bert_fused_plugin.bert.finetuned_bert import FinetunedBert
from bert_fused_plugin.bert.frozen_bert import FrozenBert
from bert_fused_plugin.criterions.consistency import read_twice
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.tasks.ensembles import with_bert_states

TOKENS = torch.tensor([[2, 5, 6, 7, 3], [2, 9, 3, -1, -1]])


def trained_names(bert):
    return {name for name, parameter in bert.model.named_parameters() if parameter.requires_grad}


def weights(bert):
    """The weights W of BERT, whatever the learning rate factor."""
    factor = float(bert.lr_factor)
    return {n: p.detach() * (factor if p.requires_grad else 1) for n, p in bert.model.named_parameters()}


@pytest.mark.parametrize("factor", [1.0, 0.1, 3.0, 1e-4, 1e4])  # the last two are the smallest and the largest
def test_it_begins_as_the_pre_trained_model(bert_dir, factor):
    bert = FinetunedBert.from_pretrained(bert_dir, lr_factor=factor).eval()
    assert_close(bert(TOKENS), FrozenBert.from_pretrained(bert_dir)(TOKENS), atol=1e-5)
    assert float(bert.lr_factor) == pytest.approx(factor)
    assert float(FinetunedBert.from_pretrained(bert_dir).lr_factor) == 1


@pytest.mark.parametrize("graph", [True, False])
def test_threads_compute_one_after_the_other(bert_dir, graph):
    """torch puts the weights W in the place of the parameters while BERT computes."""
    bert, found = FinetunedBert.from_pretrained(bert_dir, lr_factor=0.1).eval(), []

    def compute():
        with torch.set_grad_enabled(graph):
            found.append(bert(TOKENS))

    thread = threading.Thread(target=compute)
    with finetuned_bert._ONE_AT_A_TIME:
        thread.start()
        thread.join(0.5)
        assert thread.is_alive()
    thread.join()
    assert_close(found[0], FrozenBert.from_pretrained(bert_dir)(TOKENS), atol=1e-5)
    assert found[0].requires_grad is graph


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_its_weights_move_by_the_factor_times_the_learning_rate(bert_dir, optimizer):
    def step(bert, lr):
        before = weights(bert)
        (bert.eval()(TOKENS)[0] * direction).sum().backward()
        optimizer([p for p in bert.model.parameters() if p.requires_grad], lr=lr).step()
        # Adam makes a whole step of the rounding errors of a zero gradient
        return {n: (w - before[n]) * (gradients[n].abs() > 1e-3) for n, w in weights(bert).items()}

    direction = torch.randn(2, 5, 12)
    bert = FinetunedBert.from_pretrained(bert_dir).eval()
    (bert(TOKENS) * direction).sum().backward()
    gradients = {name: parameter.grad for name, parameter in bert.model.named_parameters()}

    reference = step(FinetunedBert.from_pretrained(bert_dir, lr_factor=1.0), lr=2e-3)
    slower = step(FinetunedBert.from_pretrained(bert_dir, lr_factor=0.2), lr=1e-2)
    assert any(move.abs().max() > 1e-3 for move in reference.values())
    for name, move in reference.items():
        assert_close(slower[name], move, atol=2e-6)


@pytest.mark.parametrize(
    ("options", "frozen"),
    [
        ({}, ()),
        ({"last_layers": 1}, ("embeddings.", "encoder.layer.0.")),
        ({"last_layers": 2}, ("embeddings.",)),
        ({"layers": "1"}, ("encoder.layer.1.",)),
        ({"layers": "1", "last_layers": 1}, ("embeddings.", "encoder.layer.1.")),
        ({"layers": "mix"}, ()),
        ({"layers": "0"}, ("encoder.",)),
    ],
)
def test_what_trains_gets_a_gradient_and_nothing_else_trains(bert_dir, options, frozen):
    bert = FinetunedBert.from_pretrained(bert_dir, **options).train()
    assert bert.model.training
    bert(TOKENS).square().sum().backward()
    names = {name for name, _ in bert.model.named_parameters()}
    assert trained_names(bert) == {name for name in names if not name.startswith(frozen)}
    assert {name for name, p in bert.model.named_parameters() if p.grad is not None} == trained_names(bert)
    assert bert.num_trained == sum(p.numel() for p in bert.parameters() if p.requires_grad)


@pytest.mark.parametrize("options", [{"bert_drop_net": 0.0}, {"bert_fusion": "embedding"}])
@pytest.mark.parametrize("finetune", [True, False])
def test_simcut_cuts_source_and_target_and_the_states_of_bert(build, dictionary, options, finetune):
    model = build(bert_finetune=finetune, **options).eval()
    seen = []
    for line in ("the dog sees", "the cat runs"):
        tokens = encode(dictionary, line).unsqueeze(0)
        batch = {"src_tokens": tokens, "src_lengths": torch.tensor([4]), "prev_output_tokens": tokens}
        (whole, _), (nothing, _) = read_twice(model, batch, 1.0)
        seen.append((whole, nothing))
    assert not torch.allclose(seen[0][0], seen[1][0])
    assert torch.equal(seen[0][1], seen[1][1])


def test_the_embeddings_of_gpt2_train_too_and_what_is_above_the_layer_does_not():
    model = GPT2Model(GPT2Config(vocab_size=30, n_positions=9, n_embd=8, n_layer=2, n_head=2))
    names = trained_names(FinetunedBert(model, layers="1"))
    assert {name.split(".")[0] for name in names} == {"wte", "wpe", "h"}
    assert all(name.startswith("h.0.") for name in names if name.startswith("h."))


def test_layers_that_are_one_can_only_be_trained_together():
    config = AlbertConfig(
        vocab_size=30, embedding_size=4, hidden_size=8, num_hidden_layers=3, num_attention_heads=2, intermediate_size=9
    )
    bert = FinetunedBert(AlbertModel(config, add_pooling_layer=False))
    assert len(trained_names(bert)) == len(list(bert.model.parameters()))
    with pytest.raises(BertFusedError, match=r"layers that share parameters cannot be told apart"):
        FinetunedBert(AlbertModel(config, add_pooling_layer=False), last_layers=1)


def test_parameters_that_a_model_may_leave_out_do_not_train():
    small = {"vocab_size": 30, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}
    longformer = LongformerModel(LongformerConfig(**small, attention_window=4), add_pooling_layer=False)
    small = {"vocab_size": 30, "d_model": 8, "encoder_layers": 9, "encoder_ffn_dim": 9, "encoder_layerdrop": 0.5}
    longformer.gradient_checkpointing_enable()  # which would compute with other weights again
    m2m100 = M2M100Model(M2M100Config(**small, encoder_attention_heads=2, decoder_attention_heads=2)).get_encoder()
    for bert in map(FinetunedBert, (longformer, m2m100)):  # one has parameters for some tokens, the other LayerDrop
        bert.train()(TOKENS).square().sum().backward()
        assert {name for name, p in bert.model.named_parameters() if p.grad is not None} == trained_names(bert)
        assert not bert.model.is_gradient_checkpointing


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"last_layers": 0}, r"--bert-finetune-layers must be in \[1, 2\], .* that --bert-layer -1 uses, got 0"),
        ({"layers": "1", "last_layers": 2}, r"must be in \[1, 1\], .* that --bert-layer 1 uses, got 2"),
    ],
)
def test_what_cannot_be_trained_is_refused(bert_dir, options, message):
    with pytest.raises(BertFusedError, match=message):
        FinetunedBert.from_pretrained(bert_dir, **options)


@pytest.mark.parametrize("factor", [9e-4, 100.5, 0.0, float("nan")])
def test_a_factor_out_of_range_is_refused_together_with_other_errors(build, factor):
    with pytest.raises(BertFusedError) as caught:
        build(bert_finetune=True, bert_finetune_layers=3, bert_lr_factor=factor)
    assert [error.split()[0] for error in caught.value.errors] == ["--bert-lr-factor", "--bert-finetune-layers"]
    assert f"must be in [0.001, 100], got {factor}; leave --bert-finetune out" in caught.value.errors[0]


def test_before_a_search_only_a_frozen_one_reads_the_batch(build, dictionary):
    """A search has no graph of BERT, and fairseq's scorer turns dropout off first."""
    net_input = {"src_tokens": pad([encode(dictionary, "the dog")], dictionary.pad(), left=True)}
    assert with_bert_states([build(bert_finetune=True)], net_input) is net_input
    states = with_bert_states([build()], net_input)["bert_out"]
    assert not states.requires_grad


def test_a_checkpoint_holds_it_and_gives_it_back(build, dictionary, bert_dir):
    model = build(bert_finetune=True).eval()
    with torch.no_grad():
        for parameter in model.encoder.source.bert.model.parameters():
            parameter.add_(torch.randn_like(parameter) * parameter.abs().mean())
    state = model.state_dict()
    count = len(AutoModel.from_pretrained(bert_dir, add_pooling_layer=False).state_dict())
    assert sum(name.startswith("encoder.bert.model.") for name in state) == count
    twin = build(bert_finetune=True).eval()
    assert not torch.allclose(logits(twin, dictionary), logits(model, dictionary), atol=1e-3)
    twin.load_state_dict(state, strict=True)
    assert torch.equal(logits(twin, dictionary), logits(model, dictionary))
    # the same weights at another learning rate, also after half precision
    slower = build(bert_finetune=True, bert_lr_factor=0.01).eval()
    slower.half().float().load_state_dict(state, strict=True)
    assert_close(logits(slower, dictionary), logits(model, dictionary), atol=1e-4)
    assert float(slower.encoder.source.bert.lr_factor) == pytest.approx(0.01)


def test_a_rounded_factor_is_the_same_and_half_the_factor_is_not(bert_dir):
    """EMA takes means of the factor, which are rounded at each update."""
    rounded, same, half = (FinetunedBert.from_pretrained(bert_dir, lr_factor=factor) for factor in (0.3, 0.3, 0.15))
    state = {**rounded.state_dict(), "lr_factor": torch.tensor(0.3003)}
    same.load_state_dict(state)
    half.load_state_dict(state)
    for name, parameter in same.model.named_parameters():
        assert torch.equal(parameter, rounded.model.get_parameter(name))
        assert_close(weights(half)[name], weights(same)[name], atol=5e-3)


@pytest.mark.parametrize(("then", "now"), [(None, 1), (2, 1), (1, 2), (1, None)])
def test_other_layers_may_train_than_in_the_checkpoint(bert_dir, then, now):
    trained = FinetunedBert.from_pretrained(bert_dir, last_layers=then, lr_factor=0.1).eval()
    model = FinetunedBert.from_pretrained(bert_dir, last_layers=now, lr_factor=0.2).eval()
    for parameter in trained.model.parameters():
        parameter.data *= 1.5
    model.load_state_dict(trained.state_dict())
    assert_close(model(TOKENS)[0], trained(TOKENS)[0], atol=1e-5)


def test_a_copy_that_does_not_train_is_the_same_model(bert_dir):
    """fairseq's EMA is such a copy."""
    bert = FinetunedBert.from_pretrained(bert_dir, lr_factor=0.1).eval()
    twin = copy.deepcopy(bert).requires_grad_(False)
    assert_close(twin(TOKENS), bert(TOKENS), atol=1e-6)
    slower = FinetunedBert.from_pretrained(bert_dir, lr_factor=0.05).eval().requires_grad_(False)
    slower.load_state_dict(bert.state_dict())
    assert_close(slower(TOKENS), bert(TOKENS), atol=1e-5)


def test_the_log_says_what_trains(build, caplog):
    model = build(bert_finetune=True, bert_finetune_layers=1)
    bert = model.encoder.source.bert
    assert 0 < bert.num_trained < bert.num_parameters
    assert (
        f"{bert.num_parameters - bert.num_trained:,} frozen and {bert.num_trained:,} trained parameters" in caplog.text
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_takes_the_usual_factors_and_does_not_round_them(bert_dir, dtype):
    for factor in (100.0, 1.0, 0.3, 0.1, 0.001):
        bert = FinetunedBert.from_pretrained(bert_dir, lr_factor=factor).to(dtype)
        assert all(theta.isfinite().all() for theta in bert.parameters())
        assert torch.equal(bert.state_dict()["lr_factor"], torch.tensor(factor))
