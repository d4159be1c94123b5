"""What the report does to models and reads from them."""

from types import SimpleNamespace

import pytest
import torch
from fairseq.data import BaseWrapperDataset
from helpers import assert_close, encode, randomise
from language_models import save_language_model

from bert_fused_lab.evidence.attention import BERT, SOURCE, AttentionMap, attention_maps, attention_statistics
from bert_fused_lab.evidence.bert_ablations import bert_ablations, bert_off, random_bert, shuffled_bert
from bert_fused_lab.evidence.runs import count_parameters
from bert_fused_plugin.data.dictionary_bridge import BERT_PAD

KINDS = ["parallel", "gated", "stacked", "gru: BERT"]


@pytest.fixture
def make(cases):
    return lambda kind, **options: cases.model(kind, **options).eval()


@pytest.fixture
def net_input(cases):
    src_tokens, _ = cases.tokens(slice(2))
    return {"src_tokens": src_tokens, "src_lengths": src_tokens.ne(cases.dictionary.pad()).sum(dim=1)}


@pytest.fixture
def translations(dictionary):
    return [encode(dictionary, line) for line in ("a hou@@ se runs", "the big red apple eats .")]


def logits(model, net_input, bert_tokens=None):
    prev = net_input["src_tokens"][:, -3:]
    if bert_tokens is None:
        bert_tokens = model.encoder.source.bridge.bert_tokens(net_input["src_tokens"])
    with torch.no_grad():
        return model(**net_input, prev_output_tokens=prev, bert_tokens=bert_tokens)[0]


@pytest.mark.parametrize("kind", KINDS)
def test_off_is_blind_to_bert_and_ends(make, net_input, kind):
    model = make(kind)
    tokens = model.encoder.source.bridge.bert_tokens(net_input["src_tokens"])
    on = logits(model, net_input, tokens)
    assert not torch.allclose(on, logits(model, net_input, tokens.flip(0)))
    with bert_off(model):
        off = logits(model, net_input, tokens)
        assert_close(off, logits(model, net_input, tokens.flip(0)))
        assert not torch.allclose(on, off)
    assert_close(logits(model, net_input, tokens), on)


@pytest.mark.parametrize("before", [False, True])
def test_off_is_a_stacked_model_whose_layers_have_no_attention_to_bert(make, net_input, before):
    model = make("stacked", encoder_normalize_before=before, decoder_normalize_before=before)
    with bert_off(model):
        off = logits(model, net_input)
    for layer in (*model.encoder.layers, *model.decoder.layers):
        layer.bert_attn = None
    assert_close(logits(model, net_input), off)


def test_off_is_what_drop_net_trains(make, net_input, monkeypatch):
    """The NMT branch alone: U < p_net / 2 for any U."""
    model = make("parallel", bert_drop_net=1.0)
    with bert_off(model):
        off = logits(model, net_input)
    monkeypatch.setattr(torch, "rand", torch.zeros)
    assert_close(logits(model.train(), net_input), off, atol=1e-5)


@pytest.mark.parametrize("kind", [*KINDS, "embedding", "mT5"])
def test_a_random_bert_says_something_else_and_leaves(make, build, net_input, kind, monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)  # whose generators are left alone, without a warning
    if kind == "mT5":  # the encoder of a model with a decoder
        save_language_model(kind, tmp_path)
        model = build(bert_model=str(tmp_path)).eval()
        randomise(model)
    else:
        model = make(kind)
    on, bert = logits(model, net_input), model.encoder.source.bert
    bert.reads_lengths_apart = True
    state = torch.random.get_rng_state()
    with random_bert(model, seed=2):  # not that of the tests, which drew the weights of mT5
        first = logits(model, net_input)
        assert type(model.encoder.source.bert.model) is type(bert.model)
        assert model.encoder.source.bert.reads_lengths_apart
    with random_bert(model, seed=2):
        assert_close(logits(model, net_input), first)
    with random_bert(model, seed=3):
        assert not torch.allclose(logits(model, net_input), first)
    assert not torch.allclose(on, first)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert model.encoder.source.bert is bert
    assert_close(logits(model, net_input), on)


class Dataset(BaseWrapperDataset):
    def bert_tokens(self, index):
        return torch.tensor([index])

    def __getitem__(self, index):
        return {**self.dataset[index], "bert_tokens": self.bert_tokens(index)}


def test_shuffled_sentences_have_the_bert_input_of_others():
    own = Dataset([{"id": i, "source": i} for i in range(7)])
    task = SimpleNamespace(datasets={"test": own})
    with shuffled_bert(task, "test", seed=1):
        samples = [task.datasets["test"][i] for i in range(7)]
    assert task.datasets["test"] is own
    read = [int(sample["bert_tokens"]) for sample in samples]
    assert [sample["source"] for sample in samples] == list(range(7))
    assert sorted(read) == list(range(7))
    assert all(i != other for i, other in enumerate(read))


@pytest.mark.parametrize(
    ("kind", "size", "states"),
    [
        ("gru: BERT", 2, ["on", "off", "shuffled", "random"]),
        ("embedding", 2, ["on", "shuffled", "random"]),  # which cannot be without BERT
        ("gru: BERT", 1, ["on", "off", "random"]),
    ],
)
def test_the_states_of_bert_that_a_model_and_a_test_set_can_have(make, kind, size, states):
    task = SimpleNamespace(dataset=lambda _: [1] * size)
    assert list(bert_ablations(SimpleNamespace(model=make(kind), task=task), "test")) == states


def test_maps_are_between_words(make, dictionary, net_input, translations):
    model = make("parallel")
    task = SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary)
    net_input = {key: value[:1] for key, value in net_input.items()}
    net_input["bert_tokens"] = model.encoder.source.bridge.bert_tokens(net_input["src_tokens"])
    sample = {"net_input": net_input}
    source, bert = attention_maps(model, task, sample, translations[0], ("subword_nmt", "subword_nmt"))
    assert source.rows == ["a", "house", "runs", "</s>"]
    assert source.columns == "playhouse ? the house , the red apple . </s>".split()
    assert bert.columns == "[CLS] playhouse ? the house , the red apple . [SEP]".split()
    apart, bert_apart = attention_maps(model, task, sample, translations[0], ("none", "none"))
    assert "play@@" in apart.columns
    assert "hou@@" in apart.rows
    assert "##house" in bert_apart.columns
    for found in (source, bert, apart, bert_apart):
        for layer in found.layers:
            assert layer.shape == (len(found.rows), len(found.columns))
    for layer in (*apart.layers, *bert_apart.layers):
        assert_close(layer.sum(dim=1), torch.ones(len(apart.rows)), atol=1e-5)
    assert bert.entropies == bert_apart.entropies  # between word pieces, whatever is shown
    assert all(0 < layer.share <= 1 for layer in bert.entropies)


def test_pharaoh():
    weights = torch.tensor([[0.1, 0.6, 0.2, 0.1], [0.4, 0.1, 0.1, 0.4], [0.1, 0.1, 0.7, 0.1], [0.0, 0.0, 0.0, 1.0]])
    found = AttentionMap("source", "a b c </s>".split(), "x y z </s>".split(), [weights.flip(1), weights], [None, None])
    assert found.pharaoh(1) == "1-0 0-1 2-2"
    assert AttentionMap("source", ["</s>"], ["</s>"], [torch.ones(1, 1)], [None]).pharaoh(0) == ""


@pytest.mark.parametrize("kind", ["gated", "gru: BERT"])
def test_statistics_do_not_depend_on_the_batch(make, net_input, translations, kind):
    model = make(kind)
    net_input["bert_tokens"] = model.encoder.source.bridge.bert_tokens(net_input["src_tokens"])
    together = attention_statistics(model, [(net_input, translations)])
    rows = []
    for i in range(2):
        row = {"src_tokens": net_input["src_tokens"][i : i + 1], "bert_tokens": net_input["bert_tokens"][i : i + 1]}
        row["src_tokens"] = row["src_tokens"][row["src_tokens"].ne(1)].unsqueeze(0)
        row["bert_tokens"] = row["bert_tokens"][row["bert_tokens"].ne(BERT_PAD)].unsqueeze(0)
        rows.append((row, [translations[i]]))
    alone = attention_statistics(model, rows)
    for kinds, expected in zip(together.values(), alone.values()):
        assert_close(torch.tensor(kinds), torch.tensor(expected), atol=1e-5)
        assert all(0 < layer.share <= 1 for layer in kinds)


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_are_those_that_train(make, kind):
    model = make(kind)
    counts = count_parameters(model)
    assert counts["trained"] == sum(parameter.numel() for parameter in model.parameters())
    assert counts["frozen"] == model.encoder.source.bert.num_parameters
    model.encoder.embed_tokens.weight.requires_grad_(False)
    assert count_parameters(model)["frozen"] == counts["frozen"] + model.encoder.embed_tokens.weight.numel()


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("kind", ["parallel", "embedding", "gru: BERT"])
def test_uniform_attention_is_the_largest_possible(make, net_input, translations, kind, masked):
    """Masked positions do not count."""
    model = make(kind, bert_mask_special_tokens=masked)
    for name, parameter in model.named_parameters():
        if ".q_proj." in name or name.endswith("attention.v"):
            torch.nn.init.zeros_(parameter)
    entropies = attention_statistics(model, [(net_input, translations)])
    shares = {what: [layer.share for layer in layers] for what, layers in entropies.items()}
    assert list(shares) == ([BERT] if kind == "embedding" else [SOURCE, BERT])
    for layers in shares.values():
        assert layers == pytest.approx([1.0] * len(layers), abs=1e-5)
