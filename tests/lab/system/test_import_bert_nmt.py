"""bert-fused-import: what it makes of the authors' models, by their formulas, and what it refuses."""

import os
import re
from argparse import Namespace
from collections import defaultdict

import pytest
import torch
from bert_nmt_formulas import BertNmt, hypotheses, run, run_import
from fairseq import checkpoint_utils
from fairseq.data import Dictionary
from fork_server import run_forked
from helpers import PIECES, PRE_NORM, SIZES, Call, assert_close, encode, make_model, randomise
from transformers import BertConfig, BertModel

from bert_fused_plugin.checkpoints.record import SETTINGS_RECORD
from bert_fused_plugin.errors import BertFusedError

CLS, SEP = 2, 3
FLAGS = {
    "arch": "transformer_s2_iwslt_de_en", "bert_gates": [1, 1], "encoder_ratio": 1.0, "bert_ratio": 1.0,
    "encoder_bert_dropout": False, "encoder_bert_dropout_ratio": 0.25, "encoder_bert_mixup": False,
    "mask_cls_sep": False, "bert_output_layer": -1, "bert_first": True, "decoder_no_bert": False,
    "finetune_bert": False, "bert_model_name": "bert-base-uncased", "max_source_positions": 40,
    "encoder_normalize_before": False, "encoder_learned_pos": False, "no_token_positional_embeddings": False,
    "decoder_normalize_before": False, "decoder_learned_pos": False, "source_lang": "en", "target_lang": "de",
    "share_all_embeddings": True, "share_decoder_input_output_embed": True, "max_target_positions": 30,
}  # fmt: skip


class Case:  # a checkpoint of bert-nmt, as files, and what they hold, with its BERT
    def __init__(self, path, bert_dir, dictionary, kinds="parallel parallel", version=3.0, half=False, **flags) -> None:
        self.data, self.path, self.bert, self.output = path, path / "old.pt", bert_dir, path / "new.pt"
        self.args, self.half = Namespace(**{**SIZES, **FLAGS, **flags}), half
        encoder, decoder = kinds.split()
        self.stacked = decoder == "stacked"
        fusion = {"bert_attend": "both" if encoder == "parallel" else "decoder", "bert_model": bert_dir}
        fusion["bert_fusion"] = "stacked" if self.stacked else "parallel"
        model = make_model(dictionary, **{k: v for k, v in vars(self.args).items() if k[:5] != "bert_"}, **fusion)
        randomise(model)
        absent = ("encoder.layer_norm.", "decoder.layer_norm.") if version < 2 else ()
        absent += ("decoder.layers.0.bert_attn.", "decoder.layers.1.bert_attn.") if decoder == "plain" else ()
        weights = their_names(model, self.args.share_decoder_input_output_embed)
        weights.update({"encoder.version": torch.tensor([version]), "decoder.version": torch.tensor([version])})
        weights = {key: value for key, value in weights.items() if not key.startswith(absent)}
        self.weights = {key: value.half().float() if half else value for key, value in weights.items()}
        self.source, self.target = encode(dictionary, "the old man sees a dog"), encode(dictionary, "se . play@@ eats")
        for lang in ("en", "de"):
            dictionary.save(str(path / f"dict.{lang}.txt"))
        self.bert_model = BertModel.from_pretrained(bert_dir).eval()
        self.save()

    def save(self) -> None:
        bert = {f"bert_encoder.{key}": value for key, value in self.bert_model.state_dict().items()}
        model = {key: value.half() if self.half else value for key, value in {**bert, **self.weights}.items()}
        torch.save({"args": self.args, "model": model, "extra_state": {}}, self.path)

    def run(self, *options):
        run_import(self.path, "--bert", self.bert, "--output", self.output, *options)

    def load(self):
        overrides = {"data": str(self.data)}
        [model], _, _ = checkpoint_utils.load_model_ensemble_and_task([str(self.output)], arg_overrides=overrides)
        return model.eval()

    def assert_same_logits(self, model) -> None:
        pieces = torch.tensor([CLS, *(PIECES.index(word) for word in "the old man sees a dog".split()), SEP])
        with torch.no_grad():
            layers = self.bert_model(pieces[None], output_hidden_states=True).hidden_states[1:]
            bert_out = layers[-1 if self.stacked else self.args.bert_output_layer][0]
            bert_mask = (pieces.eq(CLS) | pieces.eq(SEP)) & self.args.mask_cls_sep
            expected = BertNmt(self.weights, self.args, bert_out, bert_mask).logits(self.source, self.target)
            actual = model(self.source[None], torch.tensor([len(self.source)]), self.target[None])[0][0]
        assert_close(actual, expected, atol=1e-4)


def their_names(model, tied):
    """Return the weights of *model* as bert-nmt names and joins them."""
    state, parts = {}, defaultdict(list)
    for key, value in model.state_dict().items():
        if key.endswith("_record.text"):
            continue
        match = re.fullmatch(r"(.+_attn)\.[qkv]_proj\.(weight|bias)", key)
        if match:
            parts[match.groups()].append(value)  # k, v, q
        elif not tied or key != "decoder.output_projection.weight":
            state[key.replace("output_projection.weight", "embed_out")] = value
    for (name, kind), (k, v, q) in parts.items():
        if kind == "bias" or q.shape == k.shape:
            state[f"{name}.in_proj_{kind}"] = torch.cat([q, k, v])
        else:
            state.update({f"{name}.q_proj_weight": q, f"{name}.k_proj_weight": k, f"{name}.v_proj_weight": v})
    return state


@pytest.fixture
def make(tmp_path, bert_dir, dictionary):
    return lambda **options: Case(tmp_path, bert_dir, dictionary, **options)


RATIOS = {"encoder_ratio": 0.7, "bert_ratio": 1.3}
DROP_NET = {**RATIOS, "encoder_bert_dropout": True, "encoder_bert_dropout_ratio": 0.3}
STACK = {"kinds": "plain stacked", "arch": "transformerstack_iwslt_de_en"}
DECODER = {"kinds": "plain parallel", "arch": "transformer_wmt_en_de_big"}
ENCODER = {"kinds": "parallel plain", "decoder_no_bert": True}
NEITHER = {"kinds": "plain plain", "arch": "transformer", "decoder_no_bert": True}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (RATIOS, {"bert_branch_weights": "0.7,1.3", "bert_drop_net": 0.0, "bert_attend": "both", "bert_gates": None}),
        ({**RATIOS, "bert_gates": [1, 0]}, {"bert_branch_weights": "0.7,1.3", "bert_gates": "1,0"}),
        (DROP_NET, {"bert_branch_weights": "0.5,0.5", "bert_drop_net": 0.6}),
        ({**DROP_NET, "bert_gates": [0, 1]}, {"bert_branch_weights": "0.5,0.5", "bert_gates": "0,1"}),
        ({**DROP_NET, "encoder_bert_mixup": True}, {"bert_branch_weights": "0.5,0.5", "bert_drop_net": 0.0}),
        ({**RATIOS, "bert_gates": [1, 0], "half": True}, {"criterion": "bert_fused_label_smoothed_cross_entropy"}),
        ({"mask_cls_sep": True}, {"bert_mask_special_tokens": True}),
        ({"bert_output_layer": 0}, {"bert_layer": "1"}),
        ({"bert_output_layer": -2}, {"bert_layer": "-2"}),
        (PRE_NORM, {}),
        ({**PRE_NORM, "version": 2.0}, {}),
        ({**PRE_NORM, "version": 1.0}, {}),
        ({"encoder_learned_pos": True, "decoder_learned_pos": True}, {}),
        ({"no_token_positional_embeddings": True}, {}),
        ({"share_all_embeddings": False}, {}),
        ({"share_all_embeddings": False, "share_decoder_input_output_embed": False}, {}),
        ({"encoder_embed_dim": 12, "decoder_embed_dim": 12}, {}),  # BERT's width
        ({**ENCODER, "bert_gates": [0, 1], **RATIOS}, {"bert_attend": "encoder", "bert_gates": "0,1"}),
        ({"arch": "transformer_wmt_en_de"}, {"bert_attend": "both"}),
        ({**DECODER, **DROP_NET}, {"bert_attend": "decoder", "bert_gates": None}),
        ({**DECODER, "encoder_layers": 3, "bert_gates": [0, 1], **RATIOS}, {"bert_gates": "0,1,1"}),
        ({**STACK, **DROP_NET, "bert_gates": [0, 0]}, {"bert_fusion": "stacked", "bert_stack_order": "bert-first"}),
        ({**STACK, "bert_first": False, "bert_output_layer": 0}, {"bert_stack_order": "encoder-first"}),
        ({**STACK, **PRE_NORM}, {"bert_layer": "-1", "bert_drop_net": None, "bert_branch_weights": None}),
        (NEITHER, {"arch": "transformer", "task": "translation", "criterion": "label_smoothed_cross_entropy"}),
        ({"bert_gates": [0, 0], **RATIOS}, {"arch": "transformer"}),
    ],
)
def test_the_imported_model_computes_what_the_formulas_say(make, options, expected):
    case = make(**options)
    case.run()
    new = torch.load(case.output, weights_only=False)
    assert {name: vars(new["args"])[name] for name in expected} == expected
    assert {value.dtype for value in new["model"].values()} == {torch.float32}
    assert not re.search(r"in_proj|bert_encoder", str(list(new["model"])))
    assert (SETTINGS_RECORD in new["model"]) is (new["args"].arch != "transformer")
    case.assert_same_logits(case.load())


def test_a_fine_tuned_bert_comes_from_the_checkpoint(make):
    case = make(finetune_bert=True, bert_output_layer=1)
    with torch.no_grad():
        for parameter in case.bert_model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    case.save()
    case.run()
    case.assert_same_logits(case.load())
    assert case.load().encoder.bert.num_trained > 0


def test_tables_of_numbers_and_an_average_of_checkpoints_in_half_precision_are_no_other_bert(make):
    case = make(bert_output_layer=0)
    bert = {key: value.half().float() for key, value in case.bert_model.state_dict().items()}
    bert["embeddings.position_ids"] = torch.arange(9)  # as the authors' later branch has it, which reads the last layer
    case.args.bert_output_layer = -1
    model = {**{f"bert_encoder.{key}": value for key, value in bert.items()}, **case.weights}
    torch.save({"args": Namespace(**{**vars(case.args), "bert_output_layer": 0}), "model": model}, case.path)
    case.run()
    case.assert_same_logits(case.load())


def test_fairseqs_commands_translate_with_the_new_checkpoint_and_train_it_further(workspace, bert_dir, tmp_path):
    sizes = {"encoder_embed_dim": 16, "decoder_embed_dim": 16, "encoder_ffn_embed_dim": 24, "decoder_ffn_embed_dim": 24}
    case = Case(tmp_path, bert_dir, Dictionary.load(f"{workspace.data}/dict.en.txt"), **DROP_NET, **sizes)
    script = ["bert-fused-import", "--output", case.output]
    command = [*script, case.path, "--bert", case.bert]
    assert "--bert-branch-weights 0.5,0.5 --bert-drop-net 0.6" in run(*command)
    assert len(hypotheses(workspace.generate("--path", case.output).stdout)) == 30
    further = workspace.train("--finetune-from-model", case.output, "--max-update", "1", save_dir=tmp_path / "save")
    assert "loading pretrained model from" in further.stdout + further.stderr
    done = run_forked(*command[:-1], tmp_path / "nowhere")
    assert done.returncode == 1
    assert "bert_fused_plugin: error: --bert" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_model_that_attends_to_nothing_of_bert_needs_no_plugin(workspace, bert_dir, tmp_path):
    case = Case(tmp_path, bert_dir, Dictionary.load(f"{workspace.data}/dict.en.txt"), **NEITHER)
    case.run()
    output = workspace.run("fairseq-generate", workspace.data, "--path", case.output, "--beam", "2", "--cpu").stdout
    assert len(hypotheses(output)) == 30


def other_bert(case):
    case.bert_model = BertModel(BertConfig(hidden_size=24, num_hidden_layers=1, vocab_size=30, intermediate_size=9))


def changed_bert(case):
    case.bert_model.encoder.layer[1].output.dense.bias.data.add_(1)


def stock(case):
    case.bert_model, case.weights = torch.nn.Identity(), {"encoder.version": torch.ones(1)}


@pytest.mark.parametrize(
    ("change", "messages"),
    [
        (lambda c: vars(c.args).update(bert_adapter=True), ["args.bert_adapter True is no flag of bert-nmt"]),
        (lambda c: vars(c.args).update(adaptive_softmax_cutoff="[5, 9]"), ["adaptive softmax cannot be imported"]),
        (lambda c: c.weights.update({"encoder.layers.0.fc_d.weight": torch.zeros(8, 16)}), ["of a fork .*fc_d.weight"]),
        (lambda c: vars(c.args).update(bert_gates=[0, 1, 1]), ["--bert-gates must be a 0 or 1 for each of the 2"]),
        (lambda c: vars(c.args).update(decoder_layers=3), ["do not make one model, .*decoder.layers.2"]),
        (lambda c: vars(c.args).update(bert_output_layer=2), ["do not make one model.*--bert-layer"]),
        (lambda c: vars(c.args).update(encoder_normalize_before=True), ["encoder.layer_norm"]),
        (lambda c: c.weights.pop("decoder.layers.1.fc2.bias"), ["do not make one model.*decoder.layers.1.fc2.bias"]),
        (lambda c: c.weights.pop("encoder.layers.1.bert_attn.in_proj_bias"), ["encoder.layers.1.bert_attn"]),
        (lambda c: c.weights["encoder.layers.0.fc1.bias"].fill_(torch.nan), ["its training has diverged"]),
        (changed_bert, ["1 of 37 weights differ, .*output.dense.bias"]),
        (other_bert, ["is not the BERT of .* weights differ"]),
        (lambda c: vars(c).update(output=c.path), ["--output .* must be another file than the checkpoint"]),
        (
            lambda c: vars(c).update(bert="x", output=c.data / "no" / "x"),
            ["--bert x must be a directory; download", "--output"],
        ),
        (lambda c: vars(c).update(path=c.data / "no.pt"), ["no.pt cannot be read"]),
        (lambda c: vars(c).update(args=None), ["is no checkpoint of bert-nmt, which has 'args'"]),
        (stock, ["is no checkpoint of bert-nmt, which has"]),
        (lambda c: vars(c).update(args=Call(os.mkdir, f"{c.data}/executed")), ["old.pt is refused: it holds .*mkdir"]),
    ],
)
def test_what_cannot_be_carried_over_is_refused_and_nothing_is_written(make, change, messages):
    case = make()
    change(case)
    if case.path == case.data / "old.pt":
        case.save()
    before = sorted(case.data.rglob("*"))
    with pytest.raises(BertFusedError) as caught:
        case.run()
    for message in messages:
        assert re.search(message, str(caught.value), re.DOTALL), caught.value
    assert sorted(case.data.rglob("*")) == before
