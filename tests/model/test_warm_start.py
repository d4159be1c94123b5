"""Warm start from checkpoints of fairseq's transformer, and BERT's branch that begins as nothing."""

import logging
import os
import re
from argparse import Namespace
from types import SimpleNamespace

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerModel
from helpers import SIZES, WORDS, assert_close, encode, pad, randomise
from omegaconf import OmegaConf

from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.models.bert_fused import BertFusedModel, bert_fused

LINES = ["the old man sees a dog", "red apple", ""]
PRE_NORM = {"encoder_normalize_before": True, "decoder_normalize_before": True}


def new_dictionary(words):
    result = Dictionary()
    for word in words:
        result.add_symbol(word)
    return result


REORDERED = new_dictionary(WORDS[::-1])
LARGER = new_dictionary([*WORDS[7:], "whale", *WORDS[:7], "ship", "sea"])
SMALLER = new_dictionary(WORDS[3:15])


def task_of(source, target=None):
    cfg = SimpleNamespace(source_lang="en", target_lang="de")
    return SimpleNamespace(source_dictionary=source, target_dictionary=target or source, cfg=cfg)


@pytest.fixture
def stock(dictionary):
    """Build a stock transformer with random parameters: stock(encoder_layers=3, ...)."""

    def make(target=None, **options):
        args = Namespace(**{**SIZES, **options})
        model = TransformerModel.build_model(args, task_of(dictionary, target))
        randomise(model)
        for parameter in model.parameters():
            parameter.data /= 2  # logits of size 1, so that 1e-6 is more than rounding
        model.flags = args
        return model.eval()

    return make


@pytest.fixture
def save(tmp_path, dictionary):
    """Save *model* as fairseq does, its dictionaries beside it; return the path."""

    def write(model, /, target=None, beside=True, data="nowhere", **state):
        task = {"_name": "translation", "data": data, "source_lang": "en", "target_lang": "de"}
        flags = Namespace(arch="transformer", source_lang=None, **vars(model.flags))
        checkpoint = {"args": None, "cfg": {"model": flags, "task": task}, "model": model.state_dict(), **state}
        torch.save(checkpoint, tmp_path / "stock.pt")
        if beside:
            dictionary.save(str(tmp_path / "dict.en.txt"))
            (target or dictionary).save(str(tmp_path / "dict.de.txt"))
        return str(tmp_path / "stock.pt")

    return write


@pytest.fixture
def start(bert_dir, dictionary):
    """Build a BERT-fused model from a checkpoint: start(path, bert_drop_net=0.0, ...)."""

    def make(path, source=None, target=None, **options):
        args = Namespace(**{**SIZES, "bert_model": bert_dir, "bert_warm_start": path, **options})
        bert_fused(args)
        return BertFusedModel.build_model(args, task_of(source or dictionary, target)).eval()

    return make


def logits(model, source, target=None):
    """Return the logits of `LINES`, translated by themselves, and where they are not padding."""
    rows = [encode(source, line) for line in LINES]
    targets = [encode(target or source, line) for line in LINES]
    tokens, previous = pad(rows, source.pad(), left=True), pad(targets, source.pad(), left=False)
    return model(tokens, tokens.ne(source.pad()).sum(1), previous)[0][previous.ne(source.pad())]


def assert_same_logits(model, stock, old, source=None, target=None):
    """The logits of *model* are those of *stock*, whose dictionary is *old*, for the symbols that both know.

    In double precision, but fairseq computes a softmax in single precision here and there.
    """
    source, target = source or old, target or source or old
    expected, actual = logits(stock.double(), old), logits(model.double(), source, target)
    common = [symbol for symbol in target.symbols if symbol in old.indices]
    expected = expected[:, [old.indices[symbol] for symbol in common]]
    actual = actual[:, [target.indices[symbol] for symbol in common]]
    torch.testing.assert_close(actual, expected, atol=1e-6, rtol=0)


def table(caplog):
    """Return the logged text, and its table as {section: {name: (tensors, parameters, note)}}."""
    [text] = [r.message for r in caplog.records if r.message.startswith("warm start from")]
    result, totals = {}, {}
    for line in text.splitlines():
        row = re.fullmatch(r"(  )?(\S.*?) +([\d,]+) tensors? +([\d,]+) parameters *(.*)", line)
        if row is None:
            continue
        indent, name, *numbers, note = row.groups()
        tensors, parameters = (int(number.replace(",", "")) for number in numbers)
        if indent is None:
            section, totals[name] = result.setdefault(name, {}), (tensors, parameters)
        else:
            section[name] = (tensors, parameters, note)
    assert list(result) == ["copied", "remapped", "new", "unused", "shape mismatch"]
    for name, section in result.items():
        assert list(section) == sorted(section)
        assert totals[name] == tuple(sum(row[i] for row in section.values()) for i in (0, 1))
    return text, result


@pytest.fixture(autouse=True)
def _log(caplog):
    caplog.set_level(logging.INFO)


@pytest.mark.parametrize("dictionaries", [(None, None), (REORDERED, LARGER)], ids=["same", "remapped"])
@pytest.mark.parametrize(
    ("options", "fusion"),
    [
        ({}, {}),
        (PRE_NORM, {}),
        (PRE_NORM, {"bert_fusion": "stacked"}),
        (PRE_NORM, {"bert_fusion": "stacked", "bert_stack_order": "encoder-first"}),
        ({**PRE_NORM, "share_decoder_input_output_embed": True, "encoder_learned_pos": True}, {}),
        ({"layernorm_embedding": True, "no_scale_embedding": True, "activation_fn": "gelu"}, {"bert_layer": "mix"}),
    ],
)
def test_with_identity_start_the_first_step_computes_the_baseline(
    stock, save, start, dictionary, options, fusion, dictionaries
):
    baseline = stock(**options)
    model = start(save(baseline), *dictionaries, bert_identity_start=True, **options, **fusion)
    layers = [*model.encoder.layers, *model.decoder.layers]
    assert all(layer.bert_attn is not None for layer in layers)
    assert all(layer.fusion is None or layer.fusion.mix.weights == (1.0, 1.0) for layer in layers)
    assert_same_logits(model, baseline, dictionary, *dictionaries)


@pytest.mark.parametrize("options", [{}, {**PRE_NORM, "bert_fusion": "stacked"}], ids=["parallel", "stacked"])
def test_with_identity_start_the_first_update_changes_berts_branch(stock, save, start, dictionary, options):
    baseline = stock(**{name: value for name, value in options.items() if name in PRE_NORM})
    model = start(save(baseline), bert_identity_start=True, **options).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    logits(model, dictionary).log_softmax(-1)[:, 5].sum().backward()
    optimizer.step()
    for layer in (*model.encoder.layers, *model.decoder.layers):
        assert layer.bert_attn.out_proj.weight.grad.abs().max() > 1e-4
        assert layer.bert_attn.out_proj.weight.abs().max() > 0


@pytest.mark.parametrize(
    ("options", "messages"),
    [
        ({"bert_fusion": "gated"}, ["is for --bert-fusion parallel and stacked, got gated, in which BERT's states"]),
        ({"bert_fusion": "embedding"}, ["is for --bert-fusion parallel and stacked, got embedding"]),
        (
            {"bert_fusion": "stacked"},
            ["stacked needs --encoder-normalize-before: after the", "stacked needs --decoder-normalize-before"],
        ),
        ({"bert_fusion": "stacked", "bert_attend": "encoder"}, ["stacked needs --encoder-normalize-before"]),
        (
            {"bert_fusion": "stacked", "encoder_normalize_before": True},
            ["stacked needs --decoder-normalize-before: after"],
        ),
        ({"bert_branch_weights": "0.5,0.5"}, ["needs weight 1 for the NMT branch, got --bert-branch-weights 0.5,0.5"]),
    ],
)
def test_identity_start_is_refused_where_berts_branch_cannot_begin_as_nothing(build, options, messages):
    with pytest.raises(BertFusedError) as caught:
        build(bert_identity_start=True, **options)
    assert len(caught.value.errors) == len(messages)
    for error, message in zip(caught.value.errors, messages):
        assert error.startswith("--bert-identity-start ")
        assert message in error


@pytest.mark.parametrize("weights", ["1,0.3", "1,-1"])
def test_identity_start_takes_any_weight_of_berts_branch(stock, save, start, dictionary, weights):
    baseline = stock()
    model = start(save(baseline), bert_identity_start=True, bert_branch_weights=weights)
    assert_same_logits(model, baseline, dictionary)


def test_without_identity_start_berts_branch_counts(stock, save, start, dictionary):
    baseline = stock()
    model = start(save(baseline))
    for name, value in baseline.state_dict().items():
        if name in model.state_dict() and not name.endswith("_float_tensor"):
            assert torch.equal(model.state_dict()[name], value), name
    assert (logits(model, dictionary) - logits(baseline, dictionary)).abs().max() > 0.1


def as_old(state, version):
    """Return *state* as fairseq 0.6 named it: joint projections, numbered norms, sinusoids, no output projection."""
    result = {}
    norms = {"encoder": ["self_attn", "final"], "decoder": ["self_attn", "encoder_attn", "final"]}
    for name, value in state.items():
        parts = name.split(".")
        if "q_proj" in parts or "in_proj" in parts[-1] or parts[-1].startswith(("out_proj_", "fc1_", "fc2_")):
            if "q_proj" in parts:
                kind, prefix = parts[-1], ".".join(parts[:4])
                joint = torch.cat([state[f"{prefix}.{p}_proj.{kind}"] for p in "qkv"])
                result[f"{prefix}.in_proj_{kind}"] = joint
        elif "layers" in parts and parts[3].endswith("layer_norm"):
            number = norms[parts[0]].index(parts[3][: -len("_layer_norm")])
            result[f"{parts[0]}.layers.{parts[2]}.layer_norms.{number}.{parts[-1]}"] = value
        elif name == "decoder.output_projection.weight":
            if not torch.equal(value, state["decoder.embed_tokens.weight"]):
                result["decoder.embed_out"] = value
        elif not {"k_proj", "v_proj", "_float_tensor"} & set(parts):
            result[name] = value
    for side in ("encoder", "decoder"):
        result[f"{side}.embed_positions.weights"] = torch.randn(40, 8)
        result.pop(f"{side}.version")
        if version is not None:
            result[f"{side}.version"] = torch.tensor([float(version)])
    return result


@pytest.mark.parametrize("dictionaries", [(None, None), (REORDERED, LARGER)], ids=["same", "remapped"])
@pytest.mark.parametrize("share", [False, True], ids=["embed_out", "tied"])
@pytest.mark.parametrize("version", [None, 1, 2])
def test_old_checkpoints_are_understood(stock, save, start, dictionary, version, share, dictionaries):
    options = {**PRE_NORM, "share_decoder_input_output_embed": share}
    baseline = stock(**options)
    if version != 2:  # in which there were no final norms
        baseline.encoder.layer_norm = baseline.decoder.layer_norm = None
    old = as_old(baseline.state_dict(), version)
    assert not {"encoder.version"} - old.keys() or version is None
    assert not [name for name in old if "q_proj" in name or "attn_layer_norm" in name or "output_proj" in name]
    model = start(save(baseline, model=old), *dictionaries, bert_identity_start=True, **options)
    assert_same_logits(model, baseline, dictionary, *dictionaries)

    # a checkpoint of the new model says in its turn that there are no final norms
    source = dictionaries[0] or dictionary
    target = dictionaries[1] or source
    again = start(None, source, target, bert_identity_start=True, **options)
    again.load_state_dict(model.state_dict(), strict=True)
    torch.testing.assert_close(logits(again.eval().double(), source, target), logits(model, source, target))


def test_an_old_checkpoint_with_tied_embeddings_goes_into_a_model_without(stock, save, start, dictionary):
    baseline = stock(share_decoder_input_output_embed=True)
    old = as_old(baseline.state_dict(), version=2)
    assert not {"decoder.embed_out", "decoder.output_projection.weight"} & old.keys()
    model = start(save(baseline, model=old), LARGER, REORDERED, bert_identity_start=True)
    assert_same_logits(model, baseline, dictionary, LARGER, REORDERED)


def test_flags_are_found_wherever_fairseq_has_saved_them(stock, save, start, dictionary, tmp_path):
    """One dictionary for each side tells whether the checkpoint's languages were read."""
    baseline = stock(target=REORDERED)
    flags = dict(vars(baseline.flags))
    languages = {"source_lang": "en", "target_lang": "de", "data": [str(tmp_path / "data"), "other"]}
    (tmp_path / "data").mkdir()
    dictionary.save(str(tmp_path / "data" / "dict.en.txt"))
    REORDERED.save(str(tmp_path / "data" / "dict.de.txt"))
    data = ":".join([*languages.pop("data")])
    cfg = {"model": {"_name": "transformer", **flags}, "task": {"data": data, **languages}}
    for saved in (
        {"args": Namespace(arch="transformer", data=data.split(":"), **languages, **flags), "cfg": None},
        {"cfg": cfg},
        {"cfg": OmegaConf.create(cfg)},
    ):
        path = save(baseline, beside=False, **saved)
        model = start(path, LARGER, dictionary, bert_identity_start=True)
        a, b = (m.decoder.embed_tokens.weight for m in (model, baseline))
        assert torch.equal(a[dictionary.index("dog")], b[REORDERED.index("dog")])
        a, b = (m.encoder.embed_tokens.weight for m in (model, baseline))
        assert torch.equal(a[LARGER.index("dog")], b[dictionary.index("dog")])


def test_the_languages_are_those_of_the_checkpoint(stock, save, start, dictionary, tmp_path):
    """fairseq keeps languages that it has found out by itself with the task, and None with the model."""
    baseline = stock(target=REORDERED)
    task = {"source_lang": "fr", "target_lang": "it"}
    flags = Namespace(source_lang=None, target_lang=None, **vars(baseline.flags))
    path = save(baseline, target=dictionary, cfg={"task": task, "model": flags})
    dictionary.save(str(tmp_path / "dict.fr.txt"))
    REORDERED.save(str(tmp_path / "dict.it.txt"))
    model = start(path, LARGER, dictionary)
    index = dictionary.index("dog"), REORDERED.index("dog")
    assert torch.equal(model.decoder.embed_tokens.weight[index[0]], baseline.decoder.embed_tokens.weight[index[1]])


def test_a_checkpoint_that_says_nothing_is_taken_to_be_of_the_same_languages(stock, save, start, dictionary):
    baseline = stock(target=REORDERED)
    model = start(save(baseline, target=REORDERED, cfg=None), LARGER, dictionary)
    index = dictionary.index("dog"), REORDERED.index("dog")
    assert torch.equal(model.decoder.embed_tokens.weight[index[0]], baseline.decoder.embed_tokens.weight[index[1]])


def test_symbols_that_the_old_dictionary_lacks_stay_fresh(stock, save, start, dictionary, caplog):
    path = save(stock())
    torch.manual_seed(7)
    fresh = start(None, LARGER)
    torch.manual_seed(7)
    model = start(path, LARGER)
    for name in ("encoder.embed_tokens", "decoder.embed_tokens", "decoder.output_projection"):
        new, before = (m.state_dict()[f"{name}.weight"] for m in (model, fresh))
        for symbol in LARGER.symbols:
            unchanged = torch.equal(new[LARGER.index(symbol)], before[LARGER.index(symbol)])
            assert unchanged == (symbol in ("whale", "ship", "sea")), symbol
    text, sections = table(caplog)
    known = len(dictionary)
    assert f"source dictionary: {known} of {known + 3} symbols are in {os.path.dirname(path)}/dict.en.txt" in text
    assert f"target dictionary: {known} of {known + 3} symbols are in {os.path.dirname(path)}/dict.de.txt" in text
    assert sections["remapped"] == {
        f"{name}.weight": (1, known * 8, f"{known} of {known + 3} symbols")
        for name in ("decoder.embed_tokens", "decoder.output_projection", "encoder.embed_tokens")
    }


def test_fewer_symbols_are_found_too(stock, save, start, dictionary):
    baseline = stock()
    model = start(save(baseline), SMALLER, bert_identity_start=True)
    [row] = model.encoder.embed_tokens.weight[SMALLER.index("dog")].unsqueeze(0)
    assert torch.equal(row, baseline.encoder.embed_tokens.weight[dictionary.index("dog")])


def test_the_table_tells_what_became_of_each_tensor(stock, save, start, caplog):
    baseline = stock(encoder_layers=3, decoder_ffn_embed_dim=20, layernorm_embedding=True)
    model = start(save(baseline), decoder_layers=3)
    text, sections = table(caplog)
    attention, side = 4 * (8 * 8 + 8), 2 * 4 * 8
    to_bert = 2 * (8 * 8 + 8) + 2 * (12 * 8 + 8)
    assert sections["copied"]["encoder.layers.*.self_attn"] == (16, 2 * attention, "layers 0-1")
    assert sections["copied"]["decoder.layers.*.encoder_attn"] == (16, 2 * attention, "layers 0-1")
    assert sections["copied"]["decoder.layers.*.final_layer_norm"] == (4, side // 2, "layers 0-1")
    assert sections["remapped"] == {}
    assert sections["new"]["decoder.layers.*.encoder_attn"] == (8, attention, "layer 2")
    assert sections["new"]["decoder.layers.*.bert_attn"] == (24, 3 * to_bert, "layers 0-2")
    assert sections["unused"]["encoder.layers.*.fc1"] == (2, 8 * 18 + 18, "layer 2")
    assert sections["unused"]["encoder.layernorm_embedding.weight"] == (1, 8, "")
    assert sections["shape mismatch"]["decoder.layers.*.fc1.weight"] == (
        2, 2 * 18 * 8, "layers 0-1, 20 x 8 in the checkpoint, 18 x 8 in the model"
    )  # fmt: skip
    assert not any(word in text for word in ("version", "_float_tensor", "in_proj"))
    copied = sum(parameters for _, parameters, _ in sections["copied"].values())
    total = sum(p.numel() for name, p in model.named_parameters() if "bert" not in name)
    assert f": {copied / total:.1%} of the {total:,} parameters outside BERT's branch" in text


def test_the_layers_of_the_table_need_not_follow_each_other(stock, save, start, caplog):
    model = start(
        save(stock(encoder_layers=3, decoder_layers=3)), encoder_layers=3, decoder_layers=3, bert_gates="1,0,1"
    )
    assert model.decoder.layers[1].bert_attn is None
    assert table(caplog)[1]["new"]["decoder.layers.*.bert_attn"][2] == "layers 0, 2"


def test_a_shared_embedding_is_counted_once(stock, save, start, dictionary, caplog):
    baseline = stock(share_all_embeddings=True)
    model = start(save(baseline), REORDERED, share_all_embeddings=True, bert_identity_start=True)
    text, sections = table(caplog)
    name = "encoder.embed_tokens.weight = decoder.embed_tokens.weight = decoder.output_projection.weight"
    count = len(dictionary)
    assert sections["remapped"] == {name: (1, 8 * count, f"{count} of {count} symbols")}
    assert ": 100.0% of the " in text
    assert_same_logits(model, baseline, dictionary, REORDERED)
    assert not any("differ in the checkpoint" in record.message for record in caplog.records)


def test_a_shared_embedding_goes_into_a_model_that_does_not_share(stock, save, start, dictionary):
    baseline = stock(share_all_embeddings=True)
    model = start(save(baseline), REORDERED, LARGER, bert_identity_start=True)
    assert_same_logits(model, baseline, dictionary, REORDERED, LARGER)


def test_embeddings_that_differ_become_one_with_a_warning(stock, save, start, dictionary, caplog):
    baseline = stock(target=SMALLER)
    model = start(save(baseline, target=SMALLER), REORDERED, share_all_embeddings=True)
    [warning] = [r.message for r in caplog.records if "differ in the checkpoint and are one in the model" in r.message]
    assert (
        "decoder.output_projection.weight, decoder.embed_tokens.weight, encoder.embed_tokens.weight differ" in warning
    )
    output, source = baseline.decoder.output_projection.weight, baseline.encoder.embed_tokens.weight
    for symbol in REORDERED.symbols:
        known = symbol in SMALLER.indices
        expected = output[SMALLER.index(symbol)] if known else source[dictionary.index(symbol)]
        assert torch.equal(model.encoder.embed_tokens.weight[REORDERED.index(symbol)], expected), symbol


def test_without_its_dictionary_a_checkpoint_of_the_same_size_is_copied_row_by_row(
    stock, save, start, dictionary, caplog
):
    baseline = stock()
    model = start(save(baseline, beside=False), REORDERED, bert_identity_start=True)
    assert torch.equal(model.encoder.embed_tokens.weight, baseline.encoder.embed_tokens.weight)
    warnings = [r.message for r in caplog.records if "copied row by row, which is right only if" in r.message]
    assert [f"put dict.{lang}.txt beside the checkpoint" in w for lang, w in zip(["en", "de"], warnings)] == [True] * 2
    assert "nowhere/dict.en.txt (cannot be read)" in warnings[0]


def test_without_its_dictionary_a_checkpoint_of_another_size_is_refused(stock, save, start, dictionary):
    path = save(stock(), beside=False)
    with pytest.raises(BertFusedError) as caught:
        start(path, LARGER)
    assert len(caught.value.errors) == 2
    old, new = len(dictionary), len(LARGER)
    for error, lang, what in zip(caught.value.errors, ("en", "de"), ("source", "target")):
        assert f"the {what} dictionary of its training, {old} symbols, was not found: " in error
        assert f"the data's has {new} symbols, so that dict.{lang}.txt must be put beside the checkpoint" in error


def test_a_dictionary_of_another_size_is_passed_over(stock, save, start, dictionary, tmp_path, caplog):
    baseline = stock()
    (tmp_path / "data").mkdir()
    path = save(baseline, data=str(tmp_path / "data"))
    for lang in ("en", "de"):
        (tmp_path / f"dict.{lang}.txt").rename(tmp_path / "data" / f"dict.{lang}.txt")
        LARGER.save(str(tmp_path / f"dict.{lang}.txt"))
    model = start(path, REORDERED, bert_identity_start=True)
    assert_same_logits(model, baseline, dictionary, REORDERED)
    assert f"symbols are in {tmp_path}/data/dict.en.txt" in table(caplog)[0]


def test_embedding_fusion_takes_all_but_the_source_embeddings(stock, save, start, dictionary, caplog, tmp_path):
    baseline = stock()
    path = save(baseline)
    (tmp_path / "dict.en.txt").unlink()  # which it does not ask for
    model = start(path, LARGER, bert_fusion="embedding", bert_identity_start=False)
    for mine, theirs in zip((model.encoder.layers, model.decoder.layers), (baseline.encoder, baseline.decoder)):
        for layer, old in zip(mine, theirs.layers):
            for name, value in layer.state_dict().items():
                assert torch.equal(value, old.state_dict()[name]), name
    index = LARGER.index("dog")
    assert torch.equal(
        model.decoder.output_projection.weight[index],
        baseline.decoder.output_projection.weight[dictionary.index("dog")],
    )
    _, sections = table(caplog)
    assert set(sections["unused"]) == {"encoder.embed_tokens.weight"}
    assert set(sections["new"]) == {"encoder.bert_proj.weight", "encoder.bert_proj.bias"}


def test_a_second_name_of_what_is_used_is_not_unused(stock, save, start, caplog):
    start(save(stock(share_all_embeddings=True)), bert_fusion="embedding")
    assert table(caplog)[1]["unused"] == {}


def test_embeddings_that_the_checkpoint_does_not_have_are_new(stock, save, start, caplog):
    baseline = stock()
    state = baseline.state_dict()
    del state["decoder.embed_tokens.weight"]
    start(save(baseline, model=state))
    _, sections = table(caplog)
    new = {name for name in sections["new"] if "bert" not in name}
    assert new == {"decoder.embed_tokens.weight", "decoder.output_projection.weight"}
    assert "encoder.embed_tokens.weight" in sections["copied"]


def test_a_model_without_encoder_layers_takes_the_decoder(stock, save, start, caplog):
    baseline = stock()
    model = start(save(baseline), bert_fusion="embedding", encoder_layers=0, encoder_embed_dim=10)
    _, sections = table(caplog)
    assert set(sections["shape mismatch"]) == {
        f"decoder.layers.*.encoder_attn.{part}_proj.weight" for part in ("k", "v")
    }
    assert torch.equal(model.decoder.layers[1].fc2.weight, baseline.decoder.layers[1].fc2.weight)


def test_half_precision_is_taken(stock, save, start, dictionary):
    baseline = stock()
    model = start(save(baseline.half()), LARGER, bert_identity_start=True)
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert_same_logits(model, baseline, dictionary, LARGER)


def own_checkpoint(start, save, tmp_path, dictionary, **options):
    model = start(None, **options)
    randomise(model)
    model.flags = Namespace(**SIZES)
    return model, save(model)


def test_a_bert_fused_checkpoint_brings_its_attention_to_bert(start, save, tmp_path, dictionary):
    trained, path = own_checkpoint(start, save, tmp_path, dictionary)
    torch.testing.assert_close(logits(start(path), dictionary), logits(trained.eval(), dictionary))


def test_with_identity_start_the_attention_to_bert_of_a_checkpoint_counts_as_nothing(
    start, save, tmp_path, dictionary, caplog
):
    _, path = own_checkpoint(start, save, tmp_path, dictionary)
    caplog.clear()
    model = start(path, bert_identity_start=True)
    for layer in (*model.encoder.layers, *model.decoder.layers):
        assert not layer.bert_attn.out_proj.weight.any()
    assert "decoder.layers.*.bert_attn" in table(caplog)[1]["unused"]


def test_a_finetuned_bert_is_taken_with_its_factor(start, save, tmp_path, dictionary):
    trained, path = own_checkpoint(start, save, tmp_path, dictionary, bert_finetune=True, bert_lr_factor=0.25)
    model = start(path, bert_finetune=True, bert_lr_factor=2.0)
    assert_close(logits(model, dictionary), logits(trained.eval(), dictionary), atol=1e-5)


def test_a_finetuned_bert_of_another_size_is_left_out_as_a_whole(start, save, tmp_path, dictionary, caplog):
    trained, _ = own_checkpoint(start, save, tmp_path, dictionary, bert_finetune=True, bert_lr_factor=0.25)
    state = trained.state_dict()
    [name] = [name for name in state if name.endswith("layer.1.output.dense.bias")]
    state[name] = state[name][1:]
    caplog.clear()
    model = start(save(trained, model=state), bert_finetune=True, bert_lr_factor=2.0)
    fresh = start(None, bert_finetune=True, bert_lr_factor=2.0)
    for name, value in fresh.encoder.bert.state_dict().items():
        assert torch.equal(model.encoder.bert.state_dict()[name], value), name
    _, sections = table(caplog)
    assert "encoder.bert" in sections["unused"]
    assert "encoder.bert" not in sections["new"]


class Harmful:
    def __reduce__(self):
        return os.system, ("touch harmed",)


def bad_checkpoints(tmp_path, stock, save):
    """Yield (path, what is said of it)."""
    good = save(stock())
    state = torch.load(good, weights_only=False)

    def write(name, content):
        torch.save(content, tmp_path / name)
        return str(tmp_path / name)

    yield str(tmp_path / "gone.pt"), "gone.pt cannot be read: No such file or directory; give the checkpoint of a"
    yield str(tmp_path), "cannot be read: Is a directory; give the checkpoint"
    (tmp_path / "cut.pt").write_bytes(open(good, "rb").read()[:5000])  # noqa: SIM115
    yield str(tmp_path / "cut.pt"), "cut.pt cannot be read: it is cut off, damaged or no checkpoint at all"
    (tmp_path / "empty.pt").write_bytes(b"")
    yield str(tmp_path / "empty.pt"), "empty.pt cannot be read: it is cut off"
    yield write("bad.pt", {**state, "extra": Harmful()}), "bad.pt is refused: it holds posix.system, which no fairseq"
    yield write("list.pt", [1, 2]), "list.pt holds no model of fairseq; give the checkpoint of a fairseq transformer"
    yield write("bare.pt", state["model"]), "bare.pt holds no model of fairseq"
    yield write("other.pt", {"model": "transformer"}), "other.pt holds no model of fairseq"
    lstm = {"encoder.lstm.weight_ih_l0": torch.ones(3), "decoder.layers.0.weight_ih": torch.ones(3)}
    cfg = {"model": Namespace(arch="lstm"), "task": None}
    yield (
        write("lstm.pt", {"model": lstm, "cfg": cfg}),
        "lstm.pt is no transformer with encoder and decoder (--arch lstm); give",
    )
    no_encoder = {k: v for k, v in state["model"].items() if "encoder_attn" not in k}
    yield write("lm.pt", {"model": no_encoder}), "lm.pt is no transformer with encoder and decoder (--arch unknown)"


def test_files_that_cannot_be_used_are_refused(start, stock, save, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    seen = 0
    for path, message in bad_checkpoints(tmp_path, stock, save):
        with pytest.raises(BertFusedError) as caught:
            start(path)
        [error] = caught.value.errors
        assert error.startswith("--bert-warm-start")
        assert message in error
        seen += 1
    assert seen == 10
    assert not (tmp_path / "harmed").exists()


@pytest.mark.parametrize(
    ("baseline", "options", "messages"),
    [
        (
            {"encoder_embed_dim": 6, "decoder_embed_dim": 6},
            {},
            [
                "its encoder has width 6, this model's 8; set --encoder-embed-dim 6",
                "its decoder has width 6, this model's 8; set --decoder-embed-dim 6",
            ],
        ),
        (
            {"encoder_attention_heads": 4},
            {},
            [
                "was trained with --encoder-attention-heads 4, this model has 2: its parameters would compute "
                "something else; set --encoder-attention-heads 4"
            ],
        ),
        (
            {"decoder_normalize_before": True},
            {},
            ["was trained with --decoder-normalize-before, which this model lacks: "],
        ),
        (
            {},
            {"decoder_normalize_before": True},
            ["without --decoder-normalize-before, which this model has: its parameters would compute something else; "],
        ),
        ({"activation_fn": "gelu"}, {}, ["was trained with --activation-fn gelu, this model has relu: "]),
        ({"no_scale_embedding": True}, {}, ["with --no-scale-embedding, which this model lacks: "]),
        ({"decoder_learned_pos": True}, {}, ["with --decoder-learned-pos, which this model lacks: "]),
        (
            {"encoder_ffn_embed_dim": 16, "decoder_ffn_embed_dim": 16, "decoder_layers": 1},
            {"encoder_layers": 6, "decoder_layers": 6},
            ["fits only 18.8% of the 10,032 parameters outside BERT's branch, but must fit half of them; give"],
        ),
    ],
)
def test_checkpoints_of_other_models_are_refused(start, stock, save, baseline, options, messages):
    with pytest.raises(BertFusedError) as caught:
        start(save(stock(**baseline)), **options)
    assert len(caught.value.errors) == len(messages)
    for error, message in zip(caught.value.errors, messages):
        assert error.startswith("--bert-warm-start ")
        assert message in error


def test_the_flags_of_layers_that_the_model_does_not_have_do_not_matter(start, stock, save):
    baseline = stock(encoder_normalize_before=True, encoder_attention_heads=4)
    start(save(baseline), bert_fusion="embedding", encoder_layers=0)
    start(save(stock(encoder_learned_pos=True)), bert_fusion="embedding")  # positions of what?


def test_adaptive_softmax_needs_the_same_dictionary(start, stock, save, dictionary, caplog):
    cutoff = {"adaptive_softmax_cutoff": [10]}
    baseline = stock(**cutoff)
    path = save(baseline)
    model = start(path, REORDERED, dictionary, bert_identity_start=True, **cutoff)
    for name, value in model.decoder.adaptive_softmax.state_dict().items():
        assert torch.equal(value, baseline.decoder.adaptive_softmax.state_dict()[name])
    with pytest.raises(BertFusedError, match="--adaptive-softmax-cutoff goes by the order of the target dictionary"):
        start(path, dictionary, REORDERED, **cutoff)
    caplog.clear()
    start(path, dictionary, REORDERED)
    assert "decoder.output_projection.weight" in table(caplog)[1]["new"]


def test_all_bad_settings_are_reported_together(start, stock, save):
    with pytest.raises(BertFusedError) as caught:
        start(save(stock(encoder_attention_heads=4), beside=False), LARGER, bert_drop_net=3.0, bert_layer="9")
    flags = [error.split()[0] for error in caught.value.errors]
    assert flags == ["--bert-drop-net", *["--bert-warm-start"] * 3, "--bert-layer"]
    with pytest.raises(BertFusedError) as caught:
        start("gone.pt", bert_drop_net=3.0)
    assert [error.split()[0] for error in caught.value.errors] == ["--bert-drop-net", "--bert-warm-start"]


def arguments(bert_dir, path, **options):
    args = Namespace(**{**SIZES, "bert_model": bert_dir, "bert_warm_start": path, **options})
    bert_fused(args)
    return args


def test_what_is_saved_does_not_name_the_checkpoint(start, stock, save, bert_dir, dictionary):
    args = arguments(bert_dir, save(stock()))
    model = BertFusedModel.build_model(args, task_of(dictionary))
    assert args.bert_warm_start is None
    assert model.cfg.bert_warm_start is None


@pytest.mark.parametrize("suffix", ["", "-shard0"])
def test_training_that_resumes_does_not_read_the_checkpoint(
    bert_dir, dictionary, tmp_path, suffix, caplog, monkeypatch
):
    flags = {"save_dir": str(tmp_path), "restore_file": "checkpoint_last.pt", "checkpoint_suffix": suffix}
    with pytest.raises(BertFusedError, match="No such file"):
        BertFusedModel.build_model(arguments(bert_dir, "gone.pt", **flags), task_of(dictionary))
    (tmp_path / f"checkpoint_last{suffix}.pt").write_bytes(b"")
    args = arguments(bert_dir, "gone.pt", **flags)
    BertFusedModel.build_model(args, task_of(dictionary))
    assert args.bert_warm_start is None
    assert "--bert-warm-start gone.pt is not read: training resumes from " in caplog.text
    (tmp_path / "other.pt").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    flags.update(restore_file="other.pt", checkpoint_suffix="", save_dir="nowhere")
    BertFusedModel.build_model(arguments(bert_dir, "gone.pt", **flags), task_of(dictionary))


def test_two_sources_of_parameters_are_refused(stock, save, bert_dir, dictionary):
    args = arguments(bert_dir, save(stock()), finetune_from_model="other.pt")
    with pytest.raises(BertFusedError, match="--finetune-from-model exclude each other"):
        BertFusedModel.build_model(args, task_of(dictionary))


def test_the_random_numbers_drawn_are_those_of_a_start_from_nothing(stock, save, start):
    path = save(stock())
    drawn = []
    for given in (None, path):
        torch.manual_seed(3)
        start(given)
        drawn.append(torch.rand(1))
    assert drawn[0] == drawn[1]
