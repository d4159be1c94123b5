"""A pre-trained Hugging Face encoder: how it is loaded, and what frozen and fine-tuned ones have in common.

transformers is imported where it is used, since it takes longer than all other imports together, and a plain model
needs none of it.
"""

import inspect
import logging
import os
import re
from contextlib import contextmanager
from textwrap import shorten
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Sequence, Set

import torch
from torch import Tensor, nn

from bert_fused_plugin.bert.layer_choice import layer_indices
from bert_fused_plugin.data.dictionary_bridge import BERT_PAD
from bert_fused_plugin.data.hf_tokenizer import read_surely, take_normalizer, take_program
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.files import file_of_model

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

logger = logging.getLogger(__name__)

_NO_LIMIT = 1_000_000  # positions of encoders that have relative ones
_FEWEST_TOKENS = 256  # that a CPU computes together, so that its products are large enough
_TRIED_TOKENS = 12  # of the sentence that shows whether padding changes states
_PROBE_TOKENS = 40  # of the sentence whose states are recorded
_TOLERANCE = 1e-4  # of these states; rounding is at most a tenth of it
_HEAD = re.compile(
    "head|cls|classif|pool|predict|pred_|score|logits|outputs|output_proj|embed_out|summary|vocab_|decoder|loss|dense|linear"
)
_BACKEND = "TokenizersBackend"


class PretrainedBert(nn.Module):
    """H_B = BERT(x), the states of one or several of its layers (Zhu et al. 2020, section 4.1, step 1).

    A subclass says how the Hugging Face *model* is held.  It is any encoder, or causal language model, of
    ``transformers.AutoModel``, and is put into evaluation mode without gradients.  `layer_indices` reads *layers*.

    Raises:
        BertFusedError: There is no such layer.
    """

    model: "PreTrainedModel"
    saves_weights: bool  # whether the checkpoints of a fused model hold the weights of BERT

    def __init__(self, model: "PreTrainedModel", layers: str = "-1") -> None:
        super().__init__()
        self.depth = int(model.config.num_hidden_layers)
        self.layers = layer_indices(layers, self.depth)
        model.eval().requires_grad_(False)
        model.config.use_cache = False  # causal models would return a cache of keys and values
        self.name = str(model.name_or_path)
        self.dim = int(model.config.hidden_size)
        self.state_dim = len(self.layers) * self.dim  # the width of `forward`'s states: N x D
        self.max_positions = count_positions(model)
        # the encoders of M2M100 and of mBART in transformers 4.40 lack the method
        words = model.embed_tokens if hasattr(model, "embed_tokens") else model.get_input_embeddings()
        self.num_symbols: int = words.num_embeddings
        self.num_parameters = sum(parameter.numel() for parameter in model.parameters())
        self.reads_segments = (model.config.to_dict().get("type_vocab_size") or 0) > 1
        self.reads_lengths_apart = False
        parameters = inspect.signature(model.forward).parameters
        self._takes_mask = "attention_mask" in parameters or "kwargs" in parameters  # FNet of transformers 4 does not
        # Padded positions are masked out, so any id will do, but RoBERTa counts positions by its own padding id.
        self._filler = max(0, model.config.pad_token_id or 0)  # some have -1
        self._is_checked = False  # by `check_half_range`

    @classmethod
    def from_pretrained(cls, name: str, layers: str = "-1", **options: Any) -> "PretrainedBert":
        """Load the encoder *name*, a local directory or a name on the Hugging Face hub.

        Raises:
            BertFusedError: The encoder cannot be loaded or run, or it has no such *layers*.
        """
        model = load_encoder(name)
        try:
            bert = cls(model, layers, **options)
            bert.name = name
            bert.reads_lengths_apart = bert._depends_on_padding()
        except BertFusedError:
            raise
        except Exception as error:  # of any code of transformers
            raise BertFusedError(
                f"--bert-model {name!r} cannot read a batch of two sentences; give another encoder of text "
                f"[{shorten(f'{type(error).__name__}: {error}', 300)}]"
            ) from error
        if bert.reads_lengths_apart:
            logger.warning(f"--bert-model {name}: padding changes its states, so it reads one length after the other")
        return bert

    def forward(self, bert_tokens: Tensor, segments: Optional[Tensor] = None) -> Tensor:
        """Return the states of the N layers side by side, (B, L, N x D), computed in groups of like lengths.

        Args:
            bert_tokens: word-piece ids, (B, L), padded on the right with `BERT_PAD`.
            segments: token types, (B, L), which must be a function of *bert_tokens*; default: zeros.
        """
        if not self.reads_lengths_apart and bert_tokens.device.type != "cpu":
            return self._compute(bert_tokens, segments)
        lengths, width = bert_tokens.ne(BERT_PAD).sum(dim=1).clamp(min=1).tolist(), bert_tokens.size(1)
        groups = list(groups_by_length(lengths, 1 if self.reads_lengths_apart else _FEWEST_TOKENS))
        if len(groups) == 1:
            return self._compute(bert_tokens, segments)
        states = []
        for rows in groups:
            part = (rows, slice(lengths[rows[-1]]))
            computed = self._compute(bert_tokens[part], None if segments is None else segments[part])
            states.append(nn.functional.pad(computed, (0, 0, 0, width - computed.size(1))))
        order = torch.tensor([row for rows in groups for row in rows], device=bert_tokens.device)
        return torch.cat(states)[order.argsort()]

    def _compute(self, bert_tokens: Tensor, segments: Optional[Tensor]) -> Tensor:
        padding_mask, only_last = bert_tokens.eq(BERT_PAD), self.layers == (self.depth,)
        inputs = {"input_ids": bert_tokens.masked_fill(padding_mask, self._filler)}
        if self._takes_mask:
            inputs["attention_mask"] = (~padding_mask).long()
        if self.reads_segments and segments is not None:
            inputs["token_type_ids"] = segments
        output = self._run({**inputs, "output_hidden_states": not only_last})
        if only_last:
            return output.last_hidden_state
        # ModernBERT of transformers 4 lists the last states without their norm; BigBird pads its input to whole blocks
        states = (*output.hidden_states[:-1], output.last_hidden_state)
        return torch.cat([states[layer][:, : bert_tokens.size(1)] for layer in self.layers], dim=-1)

    def _run(self, inputs: Dict[str, Any]) -> Any:
        return self.model(**inputs)

    def is_same(self, other: "PretrainedBert") -> bool:
        """Return whether both have the same states because they are one BERT."""
        return self is other

    def weights(self) -> Dict[str, Tensor]:
        """Return the present weights of the Hugging Face model, by the model's own names."""
        return self.model.state_dict()

    def check_half_range(self, states: Tensor) -> None:
        """Raise a `BertFusedError` if half precision cannot hold *states*.

        Training would end with fairseq's error about the loss scale, and translations would be random.  A GPU has to
        wait for each answer, so of a training only the first batch is checked.

        Raises:
            BertFusedError: half precision cannot hold them.
        """
        if self.training and self._is_checked:
            return
        if not states.detach().abs().max() <= torch.finfo(torch.float16).max:  # also if the largest is NaN
            raise BertFusedError(
                "--fp16 and --amp compute in half precision, whose largest number is 65,504, and some states of "
                f"--bert-model {self.name} in a batch are larger, or are made from larger ones; train with --bf16 "
                "or in single precision, and translate without --fp16"
            )
        self._is_checked |= self.training

    def probe(self) -> List[List[float]]:
        """Return some states of each layer for a fixed input, in which settings, code and weights of BERT all show."""
        with torch.no_grad():
            states = self._compute(self._spread_tokens(_PROBE_TOKENS).to(self.model.device), None)
        layers = states.float().unflatten(-1, (-1, self.dim)).transpose(1, 2)[0].flatten(1)
        picked = torch.linspace(0, layers.size(1) - 1, max(4, _PROBE_TOKENS // len(layers)), dtype=torch.float64)
        return [[float(f"{number:.4g}") for number in layer] for layer in layers[:, picked.long()].tolist()]

    def _spread_tokens(self, count: int) -> Tensor:
        """Return *count* tokens, or as many as BERT has positions, from all over its vocabulary, (1, L)."""
        count = min(count, self.max_positions)
        tokens = (torch.arange(count) + 1) * (self.num_symbols - 1) // count
        return tokens.masked_fill(tokens.eq(self._filler), (self._filler + 1) % self.num_symbols).unsqueeze(0)

    def _depends_on_padding(self) -> bool:
        """Return whether a sentence gets other states if it is padded, as with FNet and ConvBERT."""
        tokens = self._spread_tokens(_TRIED_TOKENS).repeat(2, 1)
        length = tokens.size(1) // 2
        tokens[1, length:] = BERT_PAD
        with torch.no_grad():
            padded, alone = self._compute(tokens, None)[1, :length], self._compute(tokens[1:, :length], None)[0]
        return bool((padded - alone).abs().max() > _TOLERANCE * alone.abs().max())


def count_positions(model: "PreTrainedModel") -> int:
    """Return the largest number of tokens for which *model* has position embeddings."""
    config = model.config.to_dict()
    limit = int(config.get("max_position_embeddings") or config.get("n_positions") or _NO_LIMIT)
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            # RoBERTa and its relatives count positions from the padding id + 1, and Nystromformer has two more rows.
            return min(limit, module.num_embeddings - (0 if module.padding_idx is None else module.padding_idx + 1))
    return limit


def groups_by_length(lengths: Sequence[int], fewest: int) -> Iterator[List[int]]:
    """Yield the rows of a batch in groups of like lengths, with *fewest* tokens or more; one length stays together."""
    group: List[int] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        if group and lengths[row] > lengths[group[-1]] and len(group) * lengths[group[-1]] >= fewest:
            yield group
            group = []
        group.append(row)
    yield group


def load_encoder(name: str) -> "PreTrainedModel":
    """Load the encoder *name* in single precision; of an encoder-decoder model only the encoder is kept.

    Raises:
        BertFusedError: The encoder cannot be loaded, or the model of transformers is not what its files describe.
    """
    from transformers import AutoModel

    if file_of_model(name, "adapter_config.json") is not None:  # which is read if the package peft is installed
        raise BertFusedError(
            f"--bert-model {name!r} has an adapter (adapter_config.json), which not every installation reads; give a "
            "directory with the adapter merged into the weights (of peft: merge_and_unload, then save_pretrained)"
        )
    logger.info(f"loading BERT {name}")
    with _quiet():
        model, report = _load(AutoModel.from_pretrained, name, torch_dtype=torch.float32, output_loading_info=True)
    # the encoder of T5 that was saved alone says that it has no decoder, but AutoModel builds one
    has_decoder = model.config.is_encoder_decoder or any(key.startswith("decoder.") for key in report["missing_keys"])
    unused = ("pooler.", "decoder.") if has_decoder else ("pooler.",)
    missing, unread = (
        {key for key in report[f"{what}_keys"] if not any(part in key for part in unused)}
        for what in ("missing", "unexpected")
    )
    problem = _problem(model, missing - fixed_tables(model), unread)
    if problem:
        raise BertFusedError(f"--bert-model {name!r} cannot be used: {problem}")
    model = model.get_encoder() if has_decoder else model  # nothing holds the decoder after this line
    if hasattr(model, "pooler"):
        model.pooler = nn.Identity()  # its output is never used, but SqueezeBERT calls it
    for tensor in (*model.parameters(), *model.buffers()):
        tensor.data = tensor.data.clone()  # not a map of the file, whose content somebody may replace
    return model


def _problem(model: "PreTrainedModel", missing: Set[str], unread: Set[str]) -> Optional[str]:
    """Return why *model* is not what its files describe: weights are *missing* in them, or they have *unread* ones."""
    code = {"AutoConfig", "AutoModel"} & set(model.config.to_dict().get("auto_map") or ())
    if code:
        return (
            f"its config.json names code for {' and '.join(sorted(code))} (auto_map), which is never run, and "
            "transformers may know another model; give another encoder, or remove auto_map if the model is the same"
        )
    if missing:
        return f"{len(missing)} of its weights are missing ({min(missing)}, ...); give a complete pre-trained encoder"
    # heads may be left over: they stand beside the parts of the encoder, never inside
    parts, read = dict(model.named_children()), {*dict(model.named_buffers()), *dict(model.named_parameters())}
    names = {key: key.removeprefix(f"{model.base_model_prefix}.") for key in sorted(unread)}
    left = [
        key
        for key, name in names.items()
        if re.sub(r"\._weight$", ".weight", name) not in read  # mDeBERTa-v3's file has the embeddings twice
        and (name.split(".")[0] in parts or not _HEAD.search(name.split(".")[0]))
    ]
    if left:
        return (
            f"{type(model).__name__} of this version of transformers does not read {len(left)} of its weights "
            f"({', '.join(left[:3])}, ...); give an encoder without adapters or other additions, or install the "
            "version of transformers that wrote it"
        )
    if hasattr(model, "lang_embeddings"):
        return "it must be told the language of each token (use_lang_emb of XLM); give an encoder that reads only text"
    for name, weight in model.named_parameters():
        values = weight.detach().flatten()[:1000]
        if not weight.detach().sum().isfinite():
            return f"its weight {name} has numbers that are infinite or not a number; give an undamaged encoder"
        if weight.dim() > 1 and values.equal(values.round()) and values.abs().max() > 1:
            return f"its weight {name} has integers and no quantization_config; give the encoder before quantisation"
    return None


def fixed_tables(model: nn.Module) -> Set[str]:
    """Return the names of the tables of sinusoids in *model*, which are neither saved nor trained."""
    return {f"{name}.weight" for name, part in model.named_modules() if "Sinusoidal" in type(part).__name__}


def load_tokenizer(name: str, options: Optional[Dict[str, Any]] = None) -> "PreTrainedTokenizerBase":
    """Load the tokenizer of the encoder *name* with the *options* of ``--bert-tokenizer-options``.

    Raises:
        BertFusedError: The tokenizer cannot be loaded, it has no vocabulary, it does not know an option, or its file
            does not let the option have its effect.
    """
    options = options or {}
    tokenizer: PreTrainedTokenizerBase = _load(_tokenizer_from_pretrained, name, **options)
    file = file_of_model(name, "tokenizer.json")
    if not tokenizer.is_fast:
        read_surely(vars(tokenizer).values(), name)
    elif file is None:
        read_surely([tokenizer._tokenizer.model], name)
        take_normalizer(tokenizer, name)
    else:
        plain = _load(_tokenizer_from_pretrained, name) if options else tokenizer
        take_program(tokenizer, plain, file, name)
    makers = (vars(kind)["__init__"] for kind in type(tokenizer).__mro__ if "__init__" in vars(kind))
    known = {option for maker in makers for option in inspect.signature(maker).parameters}
    if set(options) - known:
        raise BertFusedError(
            f"--bert-tokenizer-options: the tokenizer of --bert-model {name} has no {min(set(options) - known)}; its "
            f"options are {', '.join(sorted(known - {'self', 'args', 'kwargs'}))}"
        )
    if hasattr(tokenizer, "src_lang") and "src_lang" not in options:
        logger.warning(
            f"--bert-model {name} is told the language of each sentence, and its tokenizer says {tokenizer.src_lang}; "
            "for another language give --bert-tokenizer-options src_lang=CODE"
        )
    if set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens):
        raise BertFusedError(
            f"--bert-model {name!r} has no vocabulary: the directory lacks the tokenizer's files "
            "(tokenizer.json, or vocab.txt and similar files); copy them from the place that the model comes from"
        )
    return tokenizer


def _tokenizer_from_pretrained(name: str, **options: Any) -> Any:
    import transformers
    from transformers.models.auto.tokenization_auto import get_tokenizer_config

    # transformers 4 does not know the class by which transformers 5 names most fast tokenizers
    if not hasattr(transformers, _BACKEND) and get_tokenizer_config(name).get("tokenizer_class") == _BACKEND:
        with _quiet():  # it warns that the class has another name
            return transformers.PreTrainedTokenizerFast.from_pretrained(name, **options)
    return transformers.AutoTokenizer.from_pretrained(name, **options)


def _load(load: Callable[..., Any], name: str, **options: Any) -> Any:
    try:
        return load(name, trust_remote_code=False, **options)
    except Exception as error:  # a damaged file can raise any exception
        if isinstance(error, ImportError):
            problem = " needs a package that is not installed; install it, as the message behind this one says"
        elif load is _tokenizer_from_pretrained and options and isinstance(error, KeyError):
            problem = f": its tokenizer does not know --bert-tokenizer-options {options}; give values that it knows"
        elif os.path.isdir(name):
            files = "config.json, the tokenizer's files and the weights, undamaged"
            problem = f" cannot be loaded; the directory must hold {files}"
        elif name.startswith(("/", ".", "~")):
            raise BertFusedError(
                f"--bert-model {name!r}: no such directory; give an existing one, or a name on the Hugging Face hub"
                f" (if the BERT of a trained model has moved, put a link there: ln -s NEW {name})"
            ) from None
        else:
            problem = (
                " cannot be loaded; give a local model directory, or a name on the Hugging Face hub (which needs the "
                "internet, or an earlier download together with HF_HUB_OFFLINE=1)"
            )
        raise BertFusedError(
            f"--bert-model {name!r}{problem} [{shorten(f'{type(error).__name__}: {error}', 600)}]"
        ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide the progress bar and the loading report, which lists heads and poolers that are not used."""
    from transformers.utils import logging as hf_logging

    verbosity, progress = hf_logging.get_verbosity(), hf_logging.is_progress_bar_enabled()
    hf_logging.set_verbosity_error()
    hf_logging.disable_progress_bar()
    try:
        yield
    finally:
        hf_logging.set_verbosity(verbosity)
        if progress:
            hf_logging.enable_progress_bar()
