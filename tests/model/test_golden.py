"""Imported checkpoints of bert-nmt compute what the authors' code did, layer by layer and in beam search.

Its output (checkpoints, states, logits, gradients and translations of three small models) lies outside the repository,
in the folder that the environment variable GOLDEN names; default: shared/golden beside the repository.
"""

import json
import math
import os
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from fairseq import checkpoint_utils
from fork_server import FORK_SERVER

from bert_fused_plugin.commands import import_bert_nmt
from bert_fused_plugin.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropy
from bert_fused_plugin.data.collate import BERT_PAD

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = Path(os.environ.get("GOLDEN") or ROOT.parent / "shared" / "golden")
COMMON = GOLDEN / "common"
SETS = ["s2", "s2_dropnet", "stack"]
PAD, WORD_PIECE_PAD = 1, 0

pytestmark = pytest.mark.skipif(
    not GOLDEN.is_dir(), reason=f"GOLDEN, the output of bert-nmt to compare with, is not there: {GOLDEN}"
)


def run_import(*args):
    import_bert_nmt.main([str(arg) for arg in args])


class Golden:
    """One set: the imported model, and its files."""

    def __init__(self, name: str, path: Path) -> None:
        self.folder, output = GOLDEN / name, path / f"{name}.pt"
        run_import(self.folder / "checkpoint.pt", "--bert", COMMON / "tiny-bert", "--output", output)
        data = str(COMMON / "data-bin")
        [model], _, self.task = checkpoint_utils.load_model_ensemble_and_task(
            [str(output)], arg_overrides={"data": data}
        )
        self.model = model.eval()

    def file(self, name: str):
        with np.load(self.folder / f"{name}.npz") as arrays:
            return {key: torch.from_numpy(arrays[key]) for key in arrays.files}


@pytest.fixture(scope="module", params=SETS)
def golden(request, tmp_path_factory):
    return Golden(request.param, tmp_path_factory.mktemp("golden"))


def bert_tokens(bert_input):
    return bert_input.masked_fill(bert_input.eq(WORD_PIECE_PAD), BERT_PAD)


def left_padded_states(model, bert_input):
    """Return the states of all layers as bert-nmt computes them: positions count the padding on the left too."""
    positions = torch.arange(bert_input.size(1)).expand_as(bert_input)
    inputs = {"input_ids": bert_input, "attention_mask": bert_input.ne(WORD_PIECE_PAD).long()}
    with torch.no_grad():
        return model.encoder.bert.model(**inputs, position_ids=positions, output_hidden_states=True).hidden_states


def assert_within(actual, expected, limit=1e-4):
    assert actual.shape == expected.shape
    assert (actual - expected).abs().max() <= limit


def test_bert_and_logits_of_single_sentences(golden):
    single, batch = golden.file("single8"), golden.file("batch8")
    texts = (COMMON / "raw" / "test.bert.en").read_text(encoding="utf-8").splitlines()
    assert len(batch["id"]) == 8
    for row, i in enumerate(batch["id"].tolist()):
        source, pieces = single[f"src_tokens_{i}"][None], bert_tokens(single[f"bert_input_{i}"][None])
        expected = single[f"logits_{i}"]
        prev_output_tokens = batch["prev_output_tokens"][row : row + 1, : len(expected)]
        with torch.no_grad():
            bert_out = golden.model.encoder(source, bert_tokens=pieces)["bert_out"][0]
            logits, _ = golden.model(source, None, prev_output_tokens, bert_tokens=pieces)
        assert golden.model.encoder.bridge.text(source[0]) == texts[i]  # as derived without --bert-text
        assert_within(bert_out[0], single[f"bert_last_{i}"])
        assert_within(logits[0], expected)


def test_a_batch_padded_on_the_right(golden):
    batch = golden.file("batch8_rightpad")
    pieces = bert_tokens(batch["bert_input"])
    with torch.no_grad():
        out = golden.model.encoder(batch["src_tokens"], bert_tokens=pieces)
    is_piece, is_source = pieces.ne(BERT_PAD), batch["src_tokens"].ne(PAD).T
    assert not is_piece.all()
    assert_within(out["bert_out"][0][is_piece], batch["bert_layer_1"][is_piece])
    assert_within(out["encoder_out"][0][is_source], batch["encoder_out"][is_source])


def test_all_layers_and_the_loss_and_its_gradients_on_bert_nmts_own_batch(golden):
    """Its BERT input is padded on the left, so BERT's states are computed its way, and given to the model."""
    model, batch, seen = golden.model, golden.file("batch8"), {}
    states = left_padded_states(model, batch["bert_input"])
    for name, state in zip(("bert_embeddings", "bert_layer_0", "bert_layer_1"), states):
        assert_within(state, batch[name])

    net_input = {key: batch[key] for key in ("src_tokens", "src_lengths", "prev_output_tokens")}
    net_input.update(bert_tokens=bert_tokens(batch["bert_input"]), bert_out=states[-1])
    hooks = []
    for path, module in model.named_modules():  # encoder.layers.0.self_attn is encoder_layer_0_self_attn there
        name = path.replace(".layers.", "_layer_").replace(".", "_")
        if name in batch:
            hooks.append(module.register_forward_hook(lambda *call, name=name: seen.update({name: call[2]})))
    logits, _ = model(**net_input)
    for hook in hooks:
        hook.remove()
    is_token = {"encoder": batch["src_tokens"].ne(PAD).T, "decoder": batch["target"].ne(PAD).T}
    assert {name for name in batch if "_layer_" in name and "bert_layer" not in name} == set(seen)
    assert len(seen) >= 12
    for name, out in seen.items():
        mask = is_token[name.split("_")[0]]
        assert_within((out[0] if isinstance(out, tuple) else out)[mask], batch[name][mask])
    assert_within(logits[is_token["decoder"].T], batch["logits"][is_token["decoder"].T])

    criterion = LabelSmoothedCrossEntropy(golden.task, label_smoothing=0.1, sentence_avg=False)
    sample = {"net_input": net_input, "target": batch["target"], "ntokens": int(batch["ntokens"])}
    loss, _, logged = criterion(model, sample)
    assert loss.item() == pytest.approx(batch["loss_sum"].item(), rel=1e-6)
    assert logged["nll_loss"].item() == pytest.approx(batch["nll_sum"].item(), rel=1e-6)
    if (golden.folder / "grads.npz").exists():  # of this batch's loss, in evaluation mode
        assert_gradients(model, loss, golden.file("grads"))


def assert_gradients(model, loss, expected):
    model.zero_grad()
    loss.backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    names = {theirs: names_today(theirs) for theirs in expected}
    # that of the tied embeddings is there once
    assert sorted(name for today in names.values() for name in today) == sorted(gradients)
    for theirs, today in names.items():
        actual = torch.cat([gradients[name] for name in today])
        assert (actual - expected[theirs]).norm() <= 1e-4 * expected[theirs].norm(), theirs


def names_today(name):
    """Return the parameters, or the parts, that bert-nmt's parameter *name* has become."""
    prefix, joint, kind = name.partition("in_proj_")
    if joint:
        return [f"{prefix}{part}_proj.{kind}" for part in "qkv"]
    return [name.replace("_proj_weight", "_proj.weight")]


def test_the_formulas_below_are_those_of_bert_nmt(golden):
    single, batch, weights = golden.file("single8"), golden.file("batch8"), golden.file("params")
    args = Namespace(**json.loads((golden.folder / "args.json").read_text(encoding="utf-8")))
    for row, i in enumerate(batch["id"].tolist()):
        expected = single[f"logits_{i}"]
        model = BertNmt(weights, args, single[f"bert_last_{i}"], None)
        assert_within(
            model.logits(single[f"src_tokens_{i}"], batch["prev_output_tokens"][row, : len(expected)]), expected
        )


@pytest.mark.system
@pytest.mark.parametrize("name", SETS)
def test_beam_search_by_the_real_commands(name, tmp_path):
    """One sentence a batch, as neighbours change what bert-nmt computes.  All texts are the same: there is no tie."""
    (tmp_path / "test.en").write_bytes((COMMON / "raw" / "test.bert.en").read_bytes())
    checkpoint = tmp_path / "imported.pt"
    run(
        ROOT / "scripts" / "import_bert_nmt.py", GOLDEN / name / "checkpoint.pt",
        "--bert", COMMON / "tiny-bert", "--output", checkpoint,
    )  # fmt: skip
    output = run(
        "fairseq-generate", COMMON / "data-bin", "--path", checkpoint,
        "--user-dir", ROOT / "bert_fused_plugin", "--task", "bert_fused_translation", "--bert-text", tmp_path,
        "--batch-size", 1, "--beam", 5, "--lenpen", 1, "--max-len-a", 1, "--max-len-b", 20, "--cpu",
    )  # fmt: skip
    expected = hypotheses((GOLDEN / name / "generate_b1.txt").read_text(encoding="utf-8"))
    actual = hypotheses(output)
    assert len(expected) == 100
    assert {i: text for i, (_, text) in actual.items()} == {i: text for i, (_, text) in expected.items()}
    for i, (score, _) in expected.items():
        assert actual[i][0] * math.log(2) == pytest.approx(score, abs=1e-3)  # fairseq 0.6 printed natural logarithms


def run(*command):
    done = FORK_SERVER.run(*command)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def hypotheses(output):
    rows = [line.split("\t") for line in output.splitlines() if line.startswith("H-")]
    return {int(number[2:]): (float(score), text) for number, score, text in rows}


class BertNmt:
    """bert-nmt's model for one sentence, in evaluation mode, with weights by its names; all states are (T, C)."""

    def __init__(self, weights, args, bert_out, bert_mask) -> None:
        self.p, self.args, self.bert_out, self.bert_mask = weights, args, bert_out, bert_mask
        self.width, self.heads = args.encoder_embed_dim, args.encoder_attention_heads

    def logits(self, source, prev_output_tokens):
        encoder_out = self.side("encoder", source, self.encoder_layer)
        x = self.side("decoder", prev_output_tokens, lambda i, x: self.decoder_layer(i, x, encoder_out))
        return x @ self.p.get("decoder.embed_out", self.p["decoder.embed_tokens.weight"]).T

    def side(self, side, tokens, layer):
        x = self.embed(side, tokens)
        for i in range(vars(self.args)[f"{side}_layers"]):
            x = layer(i, x)
        return self.norm(f"{side}.layer_norm", x) if f"{side}.layer_norm.weight" in self.p else x

    def encoder_layer(self, i, x):
        name, before = f"encoder.layers.{i}", self.args.encoder_normalize_before

        def branches(h):
            return self.with_bert(i, name, h, self.attention(f"{name}.self_attn", h, h))

        x = self.sublayer(f"{name}.self_attn_layer_norm", before, x, branches)
        return self.sublayer(f"{name}.final_layer_norm", before, x, lambda h: self.feed_forward(name, h))

    def decoder_layer(self, i, x, encoder_out):
        name, before = f"decoder.layers.{i}", self.args.decoder_normalize_before
        causal = torch.ones(len(x), len(x)).triu(1).bool()

        def encoder(h):
            return self.attention(f"{name}.encoder_attn", h, encoder_out)

        def bert(h):
            return self.attention(f"{name}.bert_attn", h, self.bert_out, self.bert_mask)

        steps = [("encoder_attn", lambda h: self.with_bert(i, name, h, encoder(h)))]
        if f"{name}.bert_attn_layer_norm.weight" in self.p:  # stacked
            steps = [("bert_attn", bert), ("encoder_attn", encoder)][:: 1 if self.args.bert_first else -1]
        steps.insert(0, ("self_attn", lambda h: self.attention(f"{name}.self_attn", h, h, causal)))
        for part, function in steps:
            x = self.sublayer(f"{name}.{part}_layer_norm", before, x, function)
        return self.sublayer(f"{name}.final_layer_norm", before, x, lambda h: self.feed_forward(name, h))

    def with_bert(self, i, name, h, own):
        if f"{name}.bert_attn.in_proj_bias" not in self.p:
            return own
        bert = self.attention(f"{name}.bert_attn", h, self.bert_out, self.bert_mask)
        if not self.args.bert_gates[i]:
            return self.args.encoder_ratio * own + 0.0 * bert
        if self.args.encoder_bert_dropout:
            return 0.5 * own + 0.5 * bert
        return self.args.encoder_ratio * own + self.args.bert_ratio * bert

    def embed(self, side, tokens):
        weight, positions = self.p[f"{side}.embed_tokens.weight"], torch.arange(len(tokens)) + PAD + 1
        if self.args.no_token_positional_embeddings:
            return math.sqrt(self.width) * weight[tokens]
        if vars(self.args)[f"{side}_learned_pos"]:
            position = self.p[f"{side}.embed_positions.weight"][positions]
        else:
            rates = torch.exp(torch.arange(self.width // 2) * -(math.log(10000) / (self.width // 2 - 1)))
            angles = positions[:, None] * rates
            position = torch.cat([torch.sin(angles), torch.cos(angles)], dim=1)
        return math.sqrt(self.width) * weight[tokens] + position

    def attention(self, name, query, memory, mask=None):
        joint, out_proj = self.p.get(f"{name}.in_proj_weight"), f"{name}.out_proj"
        w_q, w_k, w_v = [self.p[f"{name}.{x}_proj_weight"] for x in "qkv"] if joint is None else joint.chunk(3)
        b_q, b_k, b_v = self.p[f"{name}.in_proj_bias"].chunk(3)
        q, k, v = query @ w_q.T + b_q, memory @ w_k.T + b_k, memory @ w_v.T + b_v
        size, out = self.width // self.heads, []
        for head in (slice(i * size, (i + 1) * size) for i in range(self.heads)):
            scores = q[:, head] @ k[:, head].T / math.sqrt(size)
            scores = scores if mask is None else scores.masked_fill(mask, -math.inf)
            out.append(scores.softmax(dim=-1) @ v[:, head])
        return torch.cat(out, dim=-1) @ self.p[f"{out_proj}.weight"].T + self.p[f"{out_proj}.bias"]

    def feed_forward(self, name, x):
        x = F.relu(x @ self.p[f"{name}.fc1.weight"].T + self.p[f"{name}.fc1.bias"])
        return x @ self.p[f"{name}.fc2.weight"].T + self.p[f"{name}.fc2.bias"]

    def norm(self, name, x):
        return F.layer_norm(x, (self.width,), self.p[f"{name}.weight"], self.p[f"{name}.bias"])

    def sublayer(self, norm, before, x, function):
        return x + function(self.norm(norm, x)) if before else self.norm(norm, x + function(x))
