"""Tiny models of all kinds with random parameters, a batch for them, and what a training and a translation give."""

from argparse import Namespace
from types import SimpleNamespace

import torch
from fairseq import optim
from fairseq.models.lstm import LSTMModel
from fairseq.models.transformer import TransformerModel
from fairseq.models.transformer.transformer_legacy import base_architecture
from fairseq.sequence_generator import SequenceGenerator
from helpers import GRU_SIZES, PRE_NORM, SIZES, criterion_of, encode, make_gru, make_model, pad
from omegaconf import OmegaConf

from bert_fused_plugin.bert.source import source_of
from bert_fused_plugin.data.dictionary_bridge import collate_bert_tokens
from bert_fused_plugin.data.document_context import with_context
from bert_fused_plugin.modules.fusion import FUSION_KINDS
from bert_fused_plugin.modules.recurrent_attention import RECURRENT_ATTENTIONS
from bert_fused_plugin.tasks.ensembles import members

GRU = {
    **{kind: {"attention": kind} for kind in RECURRENT_ATTENTIONS},
    "deep": {"encoder_layers": 2, "decoder_layers": 3},
    "sparsemax, dot": {"attention": "dot", "attention_map": "sparsemax"},
    "entmax": {"attention_map": "entmax"},
}
GRU_WITH_BERT = {
    "BERT": {"bert_branch_weights": "0.7,0.2"},
    "BERT, dot": {"attention": "dot"},
    "BERT, mix": {"bert_layer": "mix"},
    "BERT, no attention": {"attention": "none"},
    "BERT, deep": {"decoder_layers": 2, "bert_mask_special_tokens": True},
    "BERT, entmax15": {"attention_map": "entmax15"},
}
FUSED = {
    **{kind: {"bert_fusion": kind} for kind in FUSION_KINDS},
    "drop-net": {"bert_drop_net": 0.7},
    "without drop-net, weights": {"bert_drop_net": 0.0, "bert_branch_weights": "0.3,0.7"},
    "gated, drop-net": {"bert_fusion": "gated", "bert_drop_net": 0.7},
    "pre-norm": PRE_NORM,
    "stacked, encoder first": {"bert_fusion": "stacked", "bert_stack_order": "encoder-first", **PRE_NORM},
    "embedding, mix": {"bert_fusion": "embedding", "bert_layer": "mix", "layernorm_embedding": True, **PRE_NORM},
    "embedding, learned positions": {"bert_fusion": "embedding", "encoder_learned_pos": True},
    "bert_decoder": {"bert_fusion": "embedding", "encoder_layers": 0},
    "no encoder layers": {"encoder_layers": 0},
    "BERT in the encoder": {"bert_attend": "encoder"},
    "BERT in the decoder": {"bert_attend": "decoder"},
    "gates": {"bert_gates": "1,0"},
    "identity start, pre-norm": {"bert_identity_start": True, "bert_fusion": "stacked", **PRE_NORM},
    "mix": {"bert_layer": "mix"},
    "random layer": {"bert_layer": "random:2"},
    "special tokens masked": {"bert_mask_special_tokens": True},
    "fine-tuned": {"bert_finetune": True},
    "fine-tuned, slow, mix": {"bert_finetune": True, "bert_lr_factor": 0.5, "bert_layer": "mix"},
    "fine-tuned, last layer": {"bert_finetune": True, "bert_finetune_layers": 1},
    "context": {"bert_context": 2},
    "entmax, sparsemax": {"attention_map": "entmax", "self_attention_map": "sparsemax"},
    "stacked, entmax": {"bert_fusion": "stacked", "attention_map": "entmax", "self_attention_map": "entmax15"},
    "shared, learned positions": {
        "share_all_embeddings": True, "encoder_learned_pos": True, "decoder_learned_pos": True,
        "max_source_positions": 30, "max_target_positions": 30,
    },
    "layer drop, checkpointed": {"encoder_layerdrop": 0.2, "decoder_layerdrop": 0.2, "checkpoint_activations": True},
}  # fmt: skip
STOCK, LSTM = "fairseq's transformer", "fairseq's lstm"
MODELS = [*FUSED, *(f"gru: {name}" for name in (*GRU, *GRU_WITH_BERT)), STOCK]
CACHED = ["parallel", "drop-net", "embedding", "mix", "special tokens masked", "context", "gru: BERT"]
# each sentence is as long as no other one, and the longest comes first, as fairseq's LSTM needs it
LINES = ["play@@ house ? the hou@@ se , the red apple .", "the old man sees a small dog .", "a dog", ""]
TARGETS = ["a big house", "the dog eats a red apple", "runs", "old man sees"]


class Cases:
    """Builds models and batches, of one *dictionary* for both languages and the BERT in *bert_dir*."""

    def __init__(self, dictionary, bert_dir):
        self.dictionary, self.bert_dir = dictionary, bert_dir
        self.task = SimpleNamespace(cfg={}, source_dictionary=dictionary, target_dictionary=dictionary)

    def model(self, name, seed=3, **options):
        """Return the model *name* of `MODELS`, for one *seed* the same each time."""
        torch.manual_seed(seed)
        if name == STOCK:
            args = Namespace(**{**SIZES, **options})
            base_architecture(args)
            model = TransformerModel.build_model(args, self.task)
        elif name == LSTM:
            model = LSTMModel.build_model(Namespace(**{**GRU_SIZES, "criterion": None, **options}), self.task)
        elif name.startswith("gru: "):
            kind = name[len("gru: ") :]
            bert = {"bert_model": self.bert_dir} if kind in GRU_WITH_BERT else {}
            model = make_gru(self.dictionary, **{**GRU, **GRU_WITH_BERT}[kind], **bert, **options)
        else:
            model = make_model(self.dictionary, bert_model=self.bert_dir, **{**FUSED[name], **options})
        torch.manual_seed(seed + 1)
        for key, parameter in model.named_parameters():
            if not key.startswith("encoder.bert."):
                torch.nn.init.normal_(parameter, std=0.3)
        return model

    def tokens(self, rows=slice(None), left=True):
        """Return source tokens, padded on the left or on the right, and target tokens."""
        sides = [[encode(self.dictionary, line) for line in lines[rows]] for lines in (LINES, TARGETS)]
        return pad(sides[0], self.dictionary.pad(), left), pad(sides[1], self.dictionary.pad(), left=False)

    def batch(self, model, cached=False):
        """Return a batch for *model*, with BERT's tokens if it reads them and, if *cached*, with BERT's states."""
        src_tokens, target = self.tokens()
        start = torch.full((len(LINES), 1), self.dictionary.eos())
        net_input = {
            "src_tokens": src_tokens,
            "src_lengths": src_tokens.ne(self.dictionary.pad()).sum(dim=1),
            "prev_output_tokens": torch.cat([start, target[:, :-1]], dim=1),
        }
        source = source_of(model)
        if source is not None:
            bridge = source.bridge
            rows = with_context(bridge, bridge.word_pieces_of_tokens(src_tokens.tolist()))
            net_input["bert_tokens"] = collate_bert_tokens(list(map(torch.tensor, rows)))
        if cached:
            bert_tokens = net_input["bert_tokens"]
            net_input["bert_out"] = source.states(bert_tokens)
        ntokens = int(target.ne(self.dictionary.pad()).sum())
        return {"net_input": net_input, "target": target, "ntokens": ntokens, "nsentences": len(LINES)}

    def optimizer(self, model):
        return torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.01, eps=1e-4)

    def train(self, model, batch, optimizer, consistency="none"):
        """Make an update, and return the loss of the batch and the gradients."""
        optimizer.zero_grad()
        loss, sample_size, _ = criterion_of(self.task, consistency=consistency)(model, batch)
        (loss / sample_size).backward()
        optimizer.step()
        return {"loss": loss.detach(), **{name: p.grad for name, p in model.named_parameters() if p.grad is not None}}

    def search(self, models, batch, strategy=None, beam=2, max_len=4, **options):
        """Return what fairseq's generator finds, *strategy* being the class of its search, if it is a special one."""
        models = list(members(models))
        inputs = {name: options.pop(name) for name in ("prefix_tokens", "constraints") if name in options}
        search = None if strategy is None else strategy(self.dictionary)
        generator = SequenceGenerator(
            models, self.dictionary, beam_size=beam, max_len_b=max_len, search_strategy=search, **options
        )
        with torch.no_grad():
            return [hypothesis for beams in generator.generate(models, batch, **inputs) for hypothesis in beams]


def make_optimizer(parameters, **flags):
    """Return fairseq's Adam for *parameters*, with some *flags* of ``common``, such as fp16."""
    common = {"fp16": False, "bf16": False, "fp16_no_flatten_grads": False, "model_parallel_size": 1, **flags}
    common.update(fp16_init_scale=4, fp16_scale_window=2, fp16_scale_tolerance=0.0, threshold_loss_scale=None)
    adam = {"_name": "adam", "lr": [0.01], "adam_betas": "(0.9, 0.98)", "adam_eps": 1e-8, "weight_decay": 0.1}
    cfg = {"common": {**common, "min_loss_scale": 1e-4}, "optimization": {"update_freq": [1]}}
    cfg["optimizer"] = {**adam, "tpu": False, "use_old_adam": False, "fp16_adam_stats": False}
    cfg = OmegaConf.create({**cfg, "distributed_training": {"distributed_world_size": 1}})
    if not (common["fp16"] or common["bf16"]):
        return optim.build_optimizer(cfg.optimizer, parameters)
    kind = optim.MemoryEfficientFP16Optimizer if "memory_efficient_fp16" in flags else optim.FP16Optimizer
    return kind.build_optimizer(cfg, parameters)


def update(optimizer):
    """Do what fairseq's trainer does with the gradients, and return their norm."""
    optimizer._needs_sync = True  # as optimizer.backward() says, in half precision
    optimizer.multiply_grads(0.5)
    norm = optimizer.clip_grad_norm(1.0)
    optimizer.step()
    return norm
