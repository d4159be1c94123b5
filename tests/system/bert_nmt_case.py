"""A random model in the files that bert-nmt wrote: its checkpoint and its dictionaries."""

import re
from argparse import Namespace
from collections import defaultdict

import torch
from bert_nmt_formulas import BertNmt, run_import
from fairseq import checkpoint_utils
from helpers import PIECES, SIZES, assert_close, encode, make_model, randomise
from transformers import BertModel

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
