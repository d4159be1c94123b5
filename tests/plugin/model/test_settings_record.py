"""A checkpoint knows the settings of its model: other settings are an error, or a warning, and never pass silently."""

import contextlib
import copy
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass

import pytest
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from helpers import GRU_SIZES, SIZES, make_gru, make_model, task_of
from settings_cases import FUSED, FUSED_NOTED, GRU, GRU_NOTED, GRU_WITH_BERT, TIED, value

from bert_fused_plugin.errors import BertFusedError, flag_name
from bert_fused_plugin.flags import Record, at_least, flag
from bert_fused_plugin.models.bert_fused import BertFusedModel, bert_fused
from bert_fused_plugin.models.gru_bahdanau import GruModel, gru_bahdanau

REFUSED = [("fused", case) for case in FUSED] + [("gru", case) for case in GRU] + [("gru with BERT", GRU_WITH_BERT)]
NOTED = [("fused", case) for case in FUSED_NOTED] + [("gru", case) for case in GRU_NOTED]
SHARED = [("fused", {"share_all_embeddings": True}), ("gru", {"share_all_embeddings": True, **TIED})]
NOTED.append(("gru with BERT", value("bert_drop_net", 0.25, 1.0)))
MODELS = [(BertFusedModel, bert_fused, SIZES), (GruModel, gru_bahdanau, GRU_SIZES)]


@pytest.fixture
def make(build, dictionary, bert_dir):
    """Build a model of a kind: make("gru", dropout=0.3)."""

    def make(kind, **options):
        if kind == "fused":
            return build(**options)
        return make_gru(dictionary, **({} if kind == "gru" else {"bert_model": bert_dir}), **options)

    return make


@pytest.mark.parametrize(("kind", "case"), REFUSED, ids=lambda part: part if isinstance(part, str) else part[2])
def test_other_settings_are_refused_and_with_bert_unchecked_warned_of(make, kind, case, caplog):
    trained_with, given, then, now = case
    trained, model = make(kind, **trained_with), make(kind, **given)
    state = trained.state_dict()
    trained.load_state_dict(state)
    with pytest.raises(BertFusedError) as caught:
        model.load_state_dict(state)
    [message] = [error for error in caught.value.errors if f"trained {then}," in error]
    remedy = f"leave {then.split()[1]} out" if then.startswith("without") else f"give {then[5:]}"
    assert message.startswith(f"the checkpoint was trained {then}, and this model is built {now}; {remedy}, or load")
    assert message.endswith("with --bert-unchecked (at generation --model-overrides \"{'bert_unchecked': True}\")")
    with contextlib.suppress(BertFusedError):  # some settings change the parameters too, which torch does not load
        make(kind, **given, bert_unchecked=True).load_state_dict(state)
    [warning] = [record.getMessage() for record in caplog.records if "--bert-unchecked" in record.getMessage()]
    assert f"the checkpoint was trained {then}, and this model is built {now}" in warning


@pytest.mark.parametrize(("kind", "case"), NOTED, ids=lambda part: part if isinstance(part, str) else part[2])
def test_settings_that_no_checkpoint_depends_on_are_noted_in_one_line(make, kind, case, caplog):
    trained, given, then, now = case
    make(kind, **given).load_state_dict(make(kind, **trained).state_dict())
    [line] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert line == f"the checkpoint was trained {then}, and this model is built {now}"


def test_how_bert_trained_is_noted(build, caplog):
    trained = build(bert_finetune=True, bert_finetune_layers=1, bert_lr_factor=0.5)
    build(bert_finetune=True).load_state_dict(trained.state_dict())
    assert (
        "trained with --bert-finetune-layers 1, and this model is built without --bert-finetune-layers" in caplog.text
    )
    assert "trained with --bert-lr-factor 0.5, and this model is built with --bert-lr-factor 0.1" in caplog.text


@pytest.mark.parametrize(("model", "preset", "sizes"), MODELS)
def test_the_other_direction_is_noted(model, preset, sizes, dictionary, bert_dir, caplog):
    """With a joined dictionary, nothing else shows that the text is in the other language."""

    def build(source, target):
        args = Namespace(**sizes, bert_model=bert_dir)
        preset(args)
        task = TranslationTask(TranslationConfig(source_lang=source, target_lang=target), dictionary, dictionary)
        return model.build_model(args, task)

    trained = build("en", "de").state_dict()
    build("en", "de").load_state_dict(trained)
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
    build("de", "en").load_state_dict(trained)
    [line] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    for side, then, now in [("source", "en", "de"), ("target", "de", "en")]:
        assert f"trained with --{side}-lang {then}, and this model is built with --{side}-lang {now}" in line


@pytest.mark.parametrize(("model", "preset", "sizes"), MODELS)
def test_bert_unchecked_is_not_saved(model, preset, sizes, dictionary, bert_dir):
    args = Namespace(**sizes, bert_model=bert_dir, bert_unchecked=True)
    preset(args)
    assert model.build_model(args, task_of(dictionary)).cfg.bert_unchecked
    assert not args.bert_unchecked  # what fairseq saves


@pytest.mark.parametrize(("model", "preset", "sizes"), MODELS)
def test_a_flag_that_a_subclass_adds_is_checked_and_recorded(model, preset, sizes, dictionary, bert_dir):
    @dataclass
    class OwnConfig(model.config_class):
        own_scale: int = flag("A factor.", 1, Record.COMPUTED, rule=at_least(1))

    class Own(model):
        config_class = OwnConfig

    def build(**options):
        args = Namespace(**sizes, bert_model=bert_dir, **options)
        preset(args)
        return Own.build_model(args, task_of(dictionary))

    with pytest.raises(BertFusedError, match=r"^--own-scale must be at least 1, got 0; choose 1 or more$"):
        build(own_scale=0)
    with pytest.raises(BertFusedError, match="trained with --own-scale 1, and this model is built with --own-scale 2"):
        build(own_scale=2).load_state_dict(build().state_dict())


def test_all_other_settings_are_named_together(build):
    with pytest.raises(BertFusedError) as caught:
        build().load_state_dict(build(bert_branch_weights="1,1", no_scale_embedding=True).state_dict())
    named = {error.split()[5].rstrip(",") for error in caught.value.errors}
    assert named == {"--bert-branch-weights", "--no-scale-embedding"}


@pytest.mark.parametrize(
    ("kind", "trained", "given"),
    [
        ("fused", {"bert_identity_start": True}, {"bert_branch_weights": "1.0, 1", "bert_drop_net": 0.0}),
        ("fused", {}, {"bert_gates": "1,1", "bert_branch_weights": ".5,5e-1", "bert_drop_net": 1.0}),
        *((kind, shared, {**shared, "share_decoder_input_output_embed": True}) for kind, shared in SHARED),
        ("fused", {"bert_fusion": "embedding", "encoder_layers": 0}, {"bert_fusion": "embedding", "encoder_layers": 0}),
    ],
)
def test_the_same_settings_in_other_words_pass_silently(make, caplog, kind, trained, given):
    make(kind, **given).load_state_dict(make(kind, **trained).state_dict())
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


def test_a_setting_that_another_version_recorded_is_passed_over(build):
    state = build().state_dict()
    model = build()
    del model.settings_record.content["computed"]["bert_fusion"]
    model.load_state_dict(state)
    newer = build()
    newer.settings_record.content["computed"]["bert_invented_later"] = 7
    newer.load_state_dict(state)


def test_an_ema_in_single_precision_is_not_checked(build, copied, caplog):
    """fairseq's EMA mixes the texts of before and after a change, and loads that at each step."""
    before, model = build(bert_drop_net=0.125, bert_model=copied(folder="moved/to/a/deep/folder")), build()
    for one, other in zip(before.buffers(), model.buffers()):  # the records are among them
        assert one.shape == other.shape
    mixed = {key: (value + before.state_dict()[key]) / 2 for key, value in model.state_dict().items()}
    caplog.clear()
    model.load_state_dict(mixed, strict=False)
    assert not caplog.text


def test_a_checkpoint_of_another_architecture_or_of_other_sizes_is_refused(build, stock, dictionary, bert_dir):
    fused, recurrent = build(), make_gru(dictionary)
    saved = {
        "sizes": build(encoder_ffn_embed_dim=20).state_dict(),
        "layers": build(encoder_layers=3).state_dict(),
        "stock": stock().state_dict(),
        "recurrent": recurrent.state_dict(),
        "recurrent with BERT": make_gru(dictionary, bert_model=bert_dir).state_dict(),
    }
    for name, model, message in (
        ("sizes", fused, "6 differ in size, such as encoder.layers.0.fc1.weight 20 x 8, not 18 x 8; give --arch and"),
        ("layers", fused, r"\d+ are unknown, such as encoder.layers.2"),
        ("stock", fused, r"are missing, such as .*--bert-warm-start takes what fits"),
        ("recurrent", fused, r"\d+ are missing, such as .* are unknown, such as .*, not"),
        ("stock", recurrent, r"\d+ are missing, such as .* are unknown, such as .*with a new --save-dir$"),
        ("recurrent with BERT", recurrent, r"\d+ are unknown"),
    ):
        with pytest.raises(BertFusedError, match=f"^the checkpoint has other parameters than this model: .*{message}"):
            model.load_state_dict(dict(saved[name]))


def test_dictionaries_of_the_same_size_with_other_symbols_are_refused(dictionary, bert_dir, caplog):
    """fairseq would translate by wrong words."""
    other = copy.deepcopy(dictionary)
    other.symbols[-2:] = other.symbols[:-3:-1]
    other.indices.update({symbol: index for index, symbol in enumerate(other.symbols)})
    for make, options in ((make_model, {"bert_model": bert_dir}), (make_gru, {})):
        state = make(dictionary, **options).state_dict()
        with pytest.raises(BertFusedError) as caught:
            make(other, **options).load_state_dict(state)
        assert [error.split(" dictionary: ")[0] for error in caught.value.errors] == [
            f"the checkpoint was trained with another {side}" for side in ("source", "target")
        ]
        assert "use the dict.*.txt that the model was trained with" in caught.value.errors[0]
        caplog.clear()
        make(other, **options, bert_unchecked=True).load_state_dict(state)
        assert "--bert-unchecked: the checkpoint was trained with another source dictionary: that" in caplog.text
        make(dictionary, **options).load_state_dict(state)


def test_a_model_without_source_embeddings_knows_its_source_dictionary_too(dictionary, bert_dir):
    larger = copy.deepcopy(dictionary)
    larger.add_symbol("larger")

    def make(source):
        args = Namespace(**SIZES, bert_fusion="embedding", bert_model=bert_dir)
        bert_fused(args)
        return BertFusedModel.build_model(args, task_of(source, dictionary))

    with pytest.raises(BertFusedError, match="another source dictionary"):
        make(larger).load_state_dict(make(dictionary).state_dict())


def test_a_checkpoint_of_a_training_that_diverged_is_refused(build, dictionary):
    for model in (build(), make_gru(dictionary)):
        state = {name: value.clone() for name, value in model.state_dict().items()}
        state["decoder.embed_tokens.weight"][3, 2] = float("inf")
        with pytest.raises(BertFusedError, match=r"^the checkpoint has numbers that are not finite in 1 parameter"):
            model.load_state_dict(state)


# --- no flag is forgotten: each has its specification, and each that checkpoints record has a case that shows it


# fairseq's flags without a rule: the parameters show their values, or another value changes nothing that was learned
UNRECORDED = set(
    """
encoder_embed_dim decoder_embed_dim encoder_ffn_embed_dim decoder_ffn_embed_dim encoder_layers decoder_layers
decoder_input_dim decoder_output_dim layernorm_embedding adaptive_softmax_cutoff adaptive_softmax_factor dropout
attention_dropout activation_dropout relu_dropout max_source_positions max_target_positions decoder_embed_path
encoder_layerdrop decoder_layerdrop adaptive_softmax_dropout checkpoint_activations offload_activations export
min_params_to_wrap quant_noise_pq_block_size base_sublayers base_shuffle
""".split()
)
OF_FINETUNING = {"--bert-finetune-layers", "--bert-lr-factor"}  # with a test of their own


@pytest.mark.parametrize(
    ("model", "cases", "tested"),
    [
        (BertFusedModel, FUSED + FUSED_NOTED, OF_FINETUNING),
        (GruModel, [*GRU, GRU_WITH_BERT, *GRU_NOTED], OF_FINETUNING | {"--bert-max-tokens", "--bert-drop-net"}),
    ],
)
def test_no_flag_is_forgotten_and_each_record_is_tested(model, cases, tested):
    parser = ArgumentParser()
    model.add_args(parser)
    specified = model.config_class.flags()
    assert {action.dest for action in parser._actions} - {"help"} <= specified.keys() | UNRECORDED
    recorded = {flag_name(name) for name, flag in specified.items() if flag.record in (Record.COMPUTED, Record.NOTED)}
    assert recorded == tested | {words.split()[1] for case in cases for words in case[2:]}
