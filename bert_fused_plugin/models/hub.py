"""fairseq's hub interface: a finished model in Python, which takes raw text and gives raw text."""

import logging
import os
import threading
from argparse import Namespace
from inspect import signature
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence

import numpy as np
from fairseq.data.data_utils import batch_by_size, collate_tokens
from fairseq.data.encoders.moses_tokenizer import MosesTokenizer
from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE
from fairseq.file_utils import load_archive_file
from fairseq.hub_utils import GeneratorHubInterface, from_pretrained
from fairseq.tasks.translation import TranslationTask
from fairseq.utils import apply_to_sample
from omegaconf import OmegaConf
from torch import Tensor

from bert_fused_plugin.bert.source import source_of
from bert_fused_plugin.checkpoints.reading import read_saved, require_architecture
from bert_fused_plugin.data.dictionary_bridge import DETOKENIZERS
from bert_fused_plugin.data.subwords import join_sentencepiece, language_code
from bert_fused_plugin.data.typed_text import TypedText
from bert_fused_plugin.errors import BertFusedError
from bert_fused_plugin.modules.device_choices import lay_out_weights

# the files that fairseq does not find itself in the directory of a model, by setting
GPT2_FILES = {"gpt2_encoder_json": "encoder.json", "gpt2_vocab_bpe": "vocab.bpe"}
BYTE_BPE_FILES = {"sentencepiece_model_path": "byte_bpe.model"}
# the settings of fairseq-generate that the hub interface reads
_SEARCH = {
    "diverse_beam_groups", "diverse_beam_strength", "diversity_rate", "lenpen", "match_source_len", "max_len_a",
    "max_len_b", "min_len", "no_repeat_ngram_size", "print_alignment", "sampling", "sampling_topk", "sampling_topp",
    "temperature", "unkpen", "unnormalized",
}  # fmt: skip
_QUIETLY = threading.Lock()  # one of two threads would restore the other's level of the log


class TranslationHub(GeneratorHubInterface):
    """fairseq's hub interface, which also warns of text that was not prepared as the training text was."""

    def __init__(self, cfg: Any, task: Any, models: Any) -> None:
        if (
            isinstance(task, TranslationTask) and OmegaConf.select(cfg, "tokenizer._name") == "moses"
        ):  # else for English
            cfg.tokenizer.update({side: language_code(task.cfg[side]) for side in ("source_lang", "target_lang")})
        super().__init__(cfg, task, models)
        self._typed_text = TypedText(self.src_dict)
        self._target_tokenizer = self.tokenizer
        self._detokenize: Optional[Callable[[str], str]] = None
        if isinstance(self.tokenizer, MosesTokenizer):  # it has the rules of the source language
            languages = {"source_lang": cfg.tokenizer.target_lang}
            self._target_tokenizer = MosesTokenizer(OmegaConf.merge(cfg.tokenizer, languages))
            self._detokenize = DETOKENIZERS["moses"](cfg.tokenizer.target_lang)

    def tokenize(self, sentence: str) -> str:
        """Return the words of a *sentence*, with spaces between them."""
        return super().tokenize(self._typed_text.plain(sentence))

    def binarize(self, sentence: str) -> Tensor:
        """Return the ids of a *sentence* that is split into symbols."""
        self._typed_text.check([sentence], self.tokenizer)
        return super().binarize(sentence)

    def remove_bpe(self, symbols: str) -> str:
        """Return the words of a translation, with spaces between them."""
        if isinstance(self.bpe, SentencepieceBPE):
            return join_sentencepiece(symbols.split())
        return str(super().remove_bpe(symbols))

    def detokenize(self, sentence: str) -> str:
        """Return plain text of the words of a translation."""
        return str(super().detokenize(sentence) if self._detokenize is None else self._detokenize(sentence))

    def generate(self, *args: Any, **kwargs: Any) -> Any:
        """Translate ids, as fairseq does; a `BertFusedError` says if a keyword is no setting of its search.

        Raises:
            BertFusedError: a keyword is no setting of the search.
        """
        unknown = kwargs.keys() - signature(super().generate).parameters.keys() - _SEARCH
        if unknown:
            raise BertFusedError(f"{', '.join(sorted(unknown))}: no setting of the search by the hub interface")
        arguments = signature(super().generate).bind(*args, **kwargs).arguments
        if arguments.get("verbose") and kwargs.get("print_alignment") == "soft":
            raise BertFusedError("verbose=True prints hard alignments only; give print_alignment='hard'")
        return super().generate(*args, **kwargs)

    def translate(self, sentences: Any, *args: Any, **kwargs: Any) -> Any:
        """Translate, as fairseq does, but to nothing what is empty or what ``skip_invalid_size_inputs`` leaves out."""
        if isinstance(sentences, str):
            return self.translate([sentences], *args, **kwargs)[0]
        ids = [self.encode(text) for text in sentences]
        places: Iterable[int] = range(len(ids))
        if kwargs.get("skip_invalid_size_inputs"):
            places = sorted(place for batch in self._build_batches(ids, True) for place in batch["id"].tolist())
        hypotheses = dict(zip(places, self.generate(ids, *args, **kwargs)))
        # an empty text has the end of the sentence alone
        is_read = [len(symbols) > 1 and place in hypotheses for place, symbols in enumerate(ids)]
        return [self.decode(hypotheses[place][0]["tokens"]) if read else "" for place, read in enumerate(is_read)]

    def score(self, sources: Any, translations: Any) -> Any:
        """Return the mean log-probability of the symbols of each of the *translations*, the end of sentence included.

        ``fairseq-generate --score-reference`` prints it to base 2.  Two texts instead of two lists give one number.

        Raises:
            BertFusedError: there is not one translation for each source.
        """
        if isinstance(sources, str) and isinstance(translations, str):
            return self.score([sources], [translations])[0]
        if isinstance(sources, str) or isinstance(translations, str) or len(sources) != len(translations):
            raise BertFusedError("score needs two texts, or two lists with a translation for each source")
        targets = [self._encode_target(text) for text in translations]
        scores: Dict[int, float] = {}
        # an option tells the task that this is not fairseq-interactive
        scorer = self.task.build_generator(self.models, Namespace(score_reference=True), prefix_allowed_tokens_fn=None)
        for group in self._groups(targets):
            for batch in self._build_batches([self.encode(sources[i]) for i in group], False):
                ids = [group[i] for i in batch["id"].tolist()]
                rows = [targets[i] for i in ids], self.tgt_dict.pad(), self.tgt_dict.eos()
                batch["target"] = collate_tokens(*rows)
                batch["net_input"]["prev_output_tokens"] = collate_tokens(*rows, move_eos_to_beginning=True)
                batch = apply_to_sample(lambda t: t.to(self.device), batch)
                hypotheses = self.task.inference_step(scorer, self.models, batch)
                scores.update(zip(ids, (hypothesis["score"].item() for [hypothesis] in hypotheses)))
        return [scores[i] for i in range(len(targets))]

    def _groups(self, targets: Sequence[Tensor]) -> List[List[int]]:
        """Return the numbers of *targets* that have, padded, at most as many tokens as a batch of sources may have."""
        bridge = vars(self.task).get("bridge")
        in_context = bridge is not None and bridge.context > 0  # all stay together and in their order
        most = None if in_context else self.cfg.dataset.max_tokens
        sizes = np.array([0 if in_context else min(len(text), most or len(text)) for text in targets], dtype=np.int64)
        order = sizes.argsort(kind="stable")
        return [group.tolist() for group in batch_by_size(order, None, sizes[order], most)]

    def _encode_target(self, text: str) -> Tensor:
        tokens = text if self._target_tokenizer is None else self._target_tokenizer.encode(text)
        return self.tgt_dict.encode_line(self.apply_bpe(tokens), add_if_not_exist=False).long()

    def _apply(self, *args: Any, **kwargs: Any) -> "TranslationHub":
        """Move the models to a device or to a dtype, as ``nn.Module`` does."""
        super()._apply(*args, **kwargs)
        for model in self.models:
            lay_out_weights(model)
            if source := source_of(model):
                _ = source.bert.model  # moves a frozen one now, and not in the first request
        return self


def load_hub(
    model_name_or_path: str, checkpoint_file: str = "model.pt", data_name_or_path: str = ".", **overrides: Any
) -> TranslationHub:
    """Load a model, as fairseq's ``from_pretrained`` does, but without its log, in which warnings drown.

    Args:
        model_name_or_path: directory of the model.
        checkpoint_file: its checkpoint; several, joined by colons, are an ensemble.
        data_name_or_path: directory of the dictionaries; a path that begins with a dot starts at the model's directory.
        overrides: settings, each a keyword, that replace those of the training; `translate` takes the beam.

    Raises:
        BertFusedError: there is no such directory, or the plug-in of the model is not imported.
    """
    model_name_or_path, data_name_or_path = map(os.path.expanduser, (model_name_or_path, data_name_or_path))
    if model_name_or_path.endswith(".pt"):
        raise BertFusedError(f"{model_name_or_path} is a checkpoint; give its directory, and checkpoint_file=NAME")
    for place in (model_name_or_path, data_name_or_path):
        is_beside_model = place is data_name_or_path and str(place).startswith(".")
        if not (is_beside_model or os.path.exists(place) or "://" in str(place)):
            raise BertFusedError(f"{os.path.abspath(place)} does not exist; give what bert-fused-export wrote")
    raw = {"bert_text": None, "bert_documents": None}  # so a model that was trained with them warns
    overrides = {**raw, **bpe_files(model_name_or_path), **overrides}
    with _QUIETLY:
        before = logging.root.manager.disable
        logging.disable(max(before, logging.INFO))
        try:
            loaded = from_pretrained(model_name_or_path, checkpoint_file, data_name_or_path, **overrides)
        except (AssertionError, IndexError, KeyError):  # fairseq's words on an unknown architecture
            for name in checkpoint_file.split(os.pathsep):
                path = os.path.join(load_archive_file(model_name_or_path), name)
                require_architecture(path, read_saved(path))
            raise
        finally:
            logging.disable(before)
    return TranslationHub(loaded["args"], loaded["task"], loaded["models"])


def bpe_files(directory: str) -> Dict[str, str]:
    """Return the settings that name the files of a kind of ``--bpe`` in *directory*, which fairseq does not find."""
    places = {key: os.path.join(directory, name) for key, name in {**GPT2_FILES, **BYTE_BPE_FILES}.items()}
    return {key: place for key, place in places.items() if os.path.isfile(place)}
