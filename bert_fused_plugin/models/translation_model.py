"""What all models of this package do alike: flags, the hub interface, and checks."""

import logging
from argparse import ArgumentParser
from typing import Any, Dict, Mapping, Optional, Tuple

from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from bert_fused_plugin.checkpoints.reading import diverged
from bert_fused_plugin.checkpoints.record import RECORDS, JsonRecord, changed_bert, changed_settings, finetuning_errors
from bert_fused_plugin.errors import BertFusedError, raise_all
from bert_fused_plugin.models.hub import load_hub
from bert_fused_plugin.modules.device_choices import lay_out_weights
from bert_fused_plugin.modules.drop_net import batch_rng

logger = logging.getLogger(__name__)

_UNCHECKED = "--bert-unchecked (at generation --model-overrides \"{'bert_unchecked': True}\")"


class TranslationModel(FairseqEncoderDecoderModel):
    """A model that says in its checkpoints what it was trained with, and that checks it when it loads one."""

    config_class: Any  # its fields are the flags
    settings_record: JsonRecord
    from_pretrained = staticmethod(load_hub)

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        """Declare the flags.  Their defaults stay in the config, so that presets can set other values."""
        gen_parser_from_dataclass(parser, cls.config_class(), delete_default=True, with_prefix="")

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Optional[Tensor],
        prev_output_tokens: Tensor,
        bert_tokens: Optional[Tensor] = None,
        bert_out: Optional[Tensor] = None,
        features_only: bool = False,
        **options: Any,
    ) -> Tuple[Tensor, Dict[str, Any]]:
        """Return the logits, (B, T, V), and the decoder's ``extra``.

        Args:
            src_tokens: the source, (B, S).
            src_lengths: the lengths of the source sentences, which are not used.
            prev_output_tokens: the target so far, (B, T).
            bert_tokens: BERT's input, (B, L); without it the input is derived from *src_tokens*.
            bert_out: BERT's states for *bert_tokens* from the cache, (B, L, N x D); without them BERT computes them.
            features_only: whether to return the states under the output layer instead of the logits.
            options: further arguments of the decoder.
        """
        options["features_only"] = features_only
        with batch_rng(self.training):
            encoder_out = self.encoder(src_tokens, src_lengths, bert_tokens=bert_tokens, bert_out=bert_out)
            return self.decoder(prev_output_tokens, encoder_out=encoder_out, **options)

    def extract_features(
        self, src_tokens: Tensor, src_lengths: Optional[Tensor], prev_output_tokens: Tensor, **inputs: Any
    ) -> Tuple[Tensor, Dict[str, Any]]:
        """Return the states under the output layer, and ``extra``; the arguments are those of `forward`."""
        return self(src_tokens, src_lengths, prev_output_tokens, features_only=True, **inputs)

    def prepare_for_inference_(self, cfg: Any) -> None:
        """Prepare the model for translation, as fairseq's commands and its hub interface ask for it."""
        super().prepare_for_inference_(cfg)
        lay_out_weights(self)

    def load_state_dict(
        self, state_dict: Dict[str, Tensor], strict: bool = True, model_cfg: Any = None, args: Any = None
    ) -> Any:
        """Load a checkpoint after a check that its dictionaries, its BERT and its settings are those of the model.

        Raises:
            BertFusedError: a checkpoint of other dictionaries, of another BERT, of other settings, sizes or
                architecture, or of a training that has diverged.
        """
        if not strict:  # so fairseq's EMA loads what it has computed, after each update
            # EMA leaves the versions out, and fairseq takes a model without them for an old one, whose last layer norms
            # it removes; the records take time to read
            versions = {name: value for name, value in self.named_buffers() if name.endswith(".version")}
            state_dict = {name: value for name, value in state_dict.items() if name not in RECORDS}
            return super().load_state_dict({**versions, **state_dict}, strict)
        errors, doubts = finetuning_errors(self, state_dict), changed_settings(self, state_dict)
        doubts += [] if errors else changed_bert(self, state_dict)
        if doubts and self.cfg.bert_unchecked:
            logger.warning(f"--bert-unchecked: {'; '.join(doubts)}")
        else:
            errors += [f"{doubt}, or load the checkpoint nevertheless with {_UNCHECKED}" for doubt in doubts]
        raise_all(errors)
        raise_all(diverged("the checkpoint", state_dict))
        try:
            return super().load_state_dict(state_dict, strict)
        except RuntimeError as error:
            reason = f"the checkpoint cannot be loaded: {' '.join(str(error).split())}"
            raise BertFusedError(_other_parameters(self, state_dict) or reason) from error


def _other_parameters(model: Any, saved: Mapping[str, Tensor]) -> str:
    expected: Mapping[str, Tensor] = model.state_dict()
    both = [name for name in expected if name in saved and saved[name].shape != expected[name].shape]
    differences = {
        "are missing": [name for name in expected if name not in saved and name not in RECORDS],
        "are unknown": [name for name in saved if name not in expected],
        "differ in size": [f"{name} {shape_text(saved[name])}, not {shape_text(expected[name])}" for name in both],
    }
    parts = [f"{len(names)} {what}, such as {names[0]}" for what, names in differences.items() if names]
    if not parts:
        return ""
    remedy = "give --arch and sizes as at that training, or begin a new one with a new --save-dir"
    if "bert_warm_start" in vars(model.cfg):
        remedy += " (--bert-warm-start takes what fits from a transformer)"
    return f"the checkpoint has other parameters than this model: {'; '.join(parts)}; {remedy}"


def shape_text(tensor: Tensor) -> str:
    """Return the shape of *tensor* as "2 x 3"."""
    return " x ".join(map(str, tensor.shape)) or "1"
