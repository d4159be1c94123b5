"""The authors' code, bert-nmt, by its formulas, and the commands that import its checkpoints and translate."""

import math

import torch
import torch.nn.functional as F
from fork_server import run_forked

from bert_fused_lab.importing import import_bert_nmt

PAD = 1


def run_import(*args):
    import_bert_nmt.main([str(arg) for arg in args])


def run(*command):
    done = run_forked(*command)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def hypotheses(output):
    """Return {sentence number: (score, tokens)} of the H lines that a command printed."""
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
