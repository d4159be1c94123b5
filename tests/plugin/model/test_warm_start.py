"""Warm start from checkpoints of transformers: what is copied, what is new, and what a training that resumes reads."""

import copy
from argparse import Namespace

import pytest
import torch
from helpers import PRE_NORM, SIZES, assert_close, dictionary_of, randomise, task_of, warnings_of
from settings_cases import FUSED
from warm_start_helpers import LARGER, REORDERED, assert_same_logits, logits, said

from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.models.bert_fused import BertFusedModel, bert_fused


def test_the_checkpoint_may_be_in_the_home_directory(stock, save, start, monkeypatch, tmp_path):
    model = stock()
    save(model)
    monkeypatch.setenv("HOME", str(tmp_path))
    started = start("~/stock.pt")
    assert torch.equal(started.decoder.embed_tokens.weight, model.decoder.embed_tokens.weight)


def test_without_identity_start_berts_branch_counts(stock, save, start, dictionary):
    baseline = stock()
    model = start(save(baseline))
    for name, value in baseline.state_dict().items():
        if name in model.state_dict() and not name.endswith("_float_tensor"):
            assert torch.equal(model.state_dict()[name], value), name
    assert (logits(model, dictionary) - logits(baseline, dictionary)).abs().max() > 0.1


def test_the_log_counts_parameters_and_names_the_first_that_are_not_copied(stock, save, start, caplog):
    path = save(stock(encoder_layers=3, decoder_ffn_embed_dim=20, layernorm_embedding=True))
    model = start(path, decoder_layers=3)
    total, attention, norm, ffn = len([*model.parameters()]), 8, 2, 4
    new = (attention + norm) + (attention + norm) + (ffn + norm) + 2 * 3 + 5 * attention  # 3 in each FFN of other size
    assert said(caplog).startswith(
        f"initialised {total - new} of {total} parameters from {path}; {new} keep their initial values: "
        "decoder.layers.0.fc1.weight (20 x 8 there, 18 x 8 here), decoder.layers.0.fc1.bias (20 there, 18 here), "
        "decoder.layers.0.fc2.weight (8 x 20 there, 8 x 18 here), ...; "
        f"{attention + norm + ffn + norm + 2 * norm} of the checkpoint are not used: encoder."
    )


def test_an_identity_start_that_leaves_parameters_out_is_warned_of(stock, save, start, caplog):
    tied = {"share_all_embeddings": True}
    for flags, changed, warned in (
        ({}, {}, False),
        ({"layernorm_embedding": True}, {}, True),
        ({"encoder_layers": 3}, {}, True),
        (tied, tied, False),
    ):
        caplog.clear()
        start(save(stock(**flags)), bert_identity_start=True, **changed)
        assert ("training does not begin exactly as" in caplog.text) == warned


def test_tied_embeddings_of_an_average_by_fairseqs_script_are_no_loss(stock, save, start, caplog):
    path = save(stock(share_all_embeddings=True))
    checkpoint = torch.load(path, weights_only=False)
    checkpoint["model"] = {name: value.clone() for name, value in checkpoint["model"].items()}
    torch.save(checkpoint, path)
    start(path, bert_identity_start=True, share_all_embeddings=True)
    assert "training does not begin exactly as" not in caplog.text


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
    assert "; 1 of the checkpoint are not used: encoder.embed_tokens.weight; " in said(caplog)
    assert "; 2 keep their initial values: encoder.bert_proj.weight, encoder.bert_proj.bias; " in said(caplog)


def test_a_second_name_of_what_is_used_is_not_unused(stock, save, start, caplog):
    start(save(stock(share_all_embeddings=True)), bert_fusion="embedding")
    assert "not used" not in said(caplog)


def test_embeddings_that_the_checkpoint_does_not_have_are_new(stock, save, start, caplog):
    baseline = stock()
    state = baseline.state_dict()
    del state["decoder.embed_tokens.weight"]
    start(save(baseline, model=state))
    first = "decoder.embed_tokens.weight, decoder.output_projection.weight, encoder.layers.0.bert_attn.k_proj.weight"
    assert f"keep their initial values: {first}, ...; " in said(caplog)
    assert "symbols of the source dictionary are in" in said(caplog)


def test_a_model_without_encoder_layers_takes_the_decoder(stock, save, start, caplog):
    baseline = stock()
    model = start(save(baseline), bert_fusion="embedding", encoder_layers=0, encoder_embed_dim=10)
    key, value = (f"decoder.layers.0.encoder_attn.{part}_proj.weight (8 x 8 there, 8 x 12 here)" for part in "kv")
    assert f"; 4 keep their initial values: {key}, {value}, " in said(caplog)
    assert torch.equal(model.decoder.layers[1].fc2.weight, baseline.decoder.layers[1].fc2.weight)


def test_tags_that_a_task_appends_to_the_dictionary_are_no_other_dictionary(stock, save, start, dictionary, tmp_path):
    path = save(baseline := stock())
    for lang in ("en", "de"):  # the last two words are as tags, which the files lack
        dictionary_of(*dictionary.symbols[dictionary.nspecial : -2]).save(str(tmp_path / f"dict.{lang}.txt"))
    assert_same_logits(start(path, bert_identity_start=True), baseline, dictionary)


def test_half_precision_is_taken(stock, save, start, dictionary):
    baseline = stock()
    for parameter in baseline.parameters():
        parameter.data = parameter.half().float()
    half = copy.deepcopy(baseline).half()  # in fairseq's main, the positions are rounded too
    model = start(save(half), LARGER, bert_identity_start=True)
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert_same_logits(model, baseline, dictionary, LARGER)


def test_a_checkpoint_of_a_training_that_diverged_is_refused(stock, save, start):
    baseline = stock()
    baseline.decoder.layers[0].fc1.bias.data[0] = float("nan")
    with pytest.raises(BertFusedError, match=r"^--bert-warm-start .* not finite in 1 parameters, .*: its training has"):
        start(save(baseline))


def own_checkpoint(start, save, **options):
    model = start(None, **options)
    randomise(model)
    model.flags = Namespace(**SIZES)
    return model, save(model)


def test_a_bert_fused_checkpoint_brings_its_attention_to_bert(start, save, tmp_path, dictionary):
    trained, path = own_checkpoint(start, save)
    torch.testing.assert_close(logits(start(path), dictionary), logits(trained.eval(), dictionary))


def test_with_identity_start_the_attention_to_bert_of_a_checkpoint_counts_as_nothing(
    start, save, tmp_path, dictionary, caplog
):
    _, path = own_checkpoint(start, save)
    caplog.clear()
    model = start(path, bert_identity_start=True)
    for layer in (*model.encoder.layers, *model.decoder.layers):
        assert not layer.bert_attn.out_proj.weight.any()
    first = "encoder.layers.0.bert_attn.out_proj.weight, encoder.layers.0.bert_attn.out_proj.bias"
    assert f"; 8 of the checkpoint are not used: {first}, " in said(caplog)


def test_a_finetuned_bert_is_taken_with_its_factor(start, save, tmp_path, dictionary):
    trained, path = own_checkpoint(start, save, bert_finetune=True, bert_lr_factor=0.25)
    model = start(path, bert_finetune=True, bert_lr_factor=2.0)
    assert_close(logits(model, dictionary), logits(trained.eval(), dictionary), atol=1e-5)
    fewer = start(path, bert_finetune=True, bert_finetune_layers=1)
    assert_close(logits(fewer, dictionary), logits(trained, dictionary), atol=1e-5)
    trained, _ = own_checkpoint(start, save, bert_finetune=True, bert_lr_factor=1.0)
    imported = {name: value for name, value in trained.state_dict().items() if name != "encoder.bert.scaled"}
    model = start(save(trained, model=imported), bert_finetune=True, bert_lr_factor=2.0)
    assert_close(logits(model, dictionary), logits(trained.eval(), dictionary), atol=1e-5)


def test_a_finetuned_bert_of_another_size_is_left_out_as_a_whole(start, save, tmp_path, dictionary, caplog):
    trained, _ = own_checkpoint(start, save, bert_finetune=True, bert_lr_factor=0.25)
    state = trained.state_dict()
    [name] = [name for name in state if name.endswith("layer.1.output.dense.bias")]
    state[name] = state[name][1:]
    caplog.clear()
    model = start(save(trained, model=state), bert_finetune=True, bert_lr_factor=2.0)
    fresh = start(None, bert_finetune=True, bert_lr_factor=2.0)
    for name, value in fresh.encoder.source.bert.state_dict().items():
        assert torch.equal(model.encoder.source.bert.state_dict()[name], value), name
    assert " of the checkpoint are not used: encoder.bert." in said(caplog)
    assert "initial values" not in said(caplog)


def arguments(bert_dir, path, **options):
    args = Namespace(**{**SIZES, "bert_model": bert_dir, "bert_warm_start": path, **options})
    bert_fused(args)
    return args


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
    flags.update(checkpoint_suffix="", save_dir="nowhere")
    for change in ({"restore_file": "other.pt"}, {"continue_once": "other.pt"}):
        caplog.clear()
        BertFusedModel.build_model(arguments(bert_dir, "gone.pt", **{**flags, **change}), task_of(dictionary))
        assert "--bert-warm-start gone.pt is not read: training resumes from other.pt" in caplog.text


def test_the_random_numbers_drawn_are_those_of_a_start_from_nothing(stock, save, start):
    path = save(stock())
    drawn = []
    for given in (None, path):
        torch.manual_seed(3)
        start(given)
        drawn.append(torch.rand(1))
    assert drawn[0] == drawn[1]


# --- --bert-identity-start: BERT's branch begins as nothing, so that the first step computes the baseline


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
    assert fusion.get("bert_fusion") == "stacked" or all(layer.mix.weights == (1.0, 1.0) for layer in layers)
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


@pytest.mark.parametrize("weights", ["1,0.3", "1,-1"])
def test_identity_start_takes_any_weight_of_berts_branch(stock, save, start, dictionary, weights):
    baseline = stock()
    model = start(save(baseline), bert_identity_start=True, bert_branch_weights=weights)
    assert_same_logits(model, baseline, dictionary)


# --- a BERT-fused checkpoint whose branch would compute something else


@pytest.mark.parametrize(
    ("trained", "given", "then", "now"),
    [case for case in FUSED if "--bert-" in case[2] or "attention-map" in case[2]],
    ids=lambda part: part if isinstance(part, str) else None,
)
def test_other_settings_of_berts_branch_than_the_checkpoints_are_warned_of(
    start, save, caplog, trained, given, then, now
):
    _, path = own_checkpoint(start, save, **trained)
    start(path, **trained)
    if "bert_identity_start" in trained:
        caplog.clear()  # the start discards a trained branch, which the next test is about
    assert warnings_of(caplog) == []
    start(path, **given)
    remedy = f"leave {then.split()[1]} out" if then.startswith("without") else f"give {then[5:]}"
    said = f"--bert-warm-start {path} was trained {then}, and this model is built {now}; {remedy}"
    assert said in warnings_of(caplog)


def test_another_input_of_bert_than_the_checkpoints_is_warned_of(start, save, caplog):
    _, path = own_checkpoint(start, save, bert_context=1, bert_subword="none")
    start(path, bert_layer="1")  # the kind of subwords may be another one
    [line] = warnings_of(caplog)
    trained = "the checkpoint was trained with --bert-context 1, not 0, --bert-layer 2, not 1"
    assert line == f"--bert-warm-start {path}: {trained}; set the same values as at training"


def test_a_finetuned_bert_that_is_left_out_is_warned_of(start, save, caplog):
    _, path = own_checkpoint(start, save, bert_finetune=True)
    start(path, bert_finetune=True)
    assert warnings_of(caplog) == []
    start(path)
    said = "was trained with --bert-finetune, and this model is built without --bert-finetune; give --bert-finetune"
    assert warnings_of(caplog) == [f"--bert-warm-start {path} {said}"]


def test_an_identity_start_that_discards_a_trained_branch_is_warned_of(start, stock, save, caplog):
    start(save(stock()), bert_identity_start=True)
    assert warnings_of(caplog) == []
    _, path = own_checkpoint(start, save, bert_identity_start=True)
    start(path, bert_identity_start=True, bert_layer="1")  # the new branch may read another layer
    [line] = warnings_of(caplog)
    assert line == (
        f"--bert-warm-start {path} has a trained BERT branch, which --bert-identity-start discards; leave it out, and "
        "give --bert-branch-weights 1,1 --bert-drop-net 0 if that training had it"
    )
