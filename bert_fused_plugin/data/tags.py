"""Tags in the source that are no text, such as ``<2de>``: --bert-strip-tags, and the tags of fairseq's own tasks."""

import re
from typing import Any, List, Optional

from fairseq.data import Dictionary
from fairseq.data.multilingual.multilingual_utils import get_lang_tok
from fairseq.tasks.translation_from_pretrained_bart import TranslationFromPretrainedBARTTask
from fairseq.tasks.translation_multi_simple_epoch import TranslationMultiSimpleEpochTask

from bert_fused_plugin.errors import BertFusedError

# of mBART, NLLB, OPUS-MT, fairseq's multilingual tasks, and those that people make: [de_DE], en_XX, deu_Latn, >>fra<<,
# <2de>, <to_de>, <de>, <lang:de>, ｟de｠, __de__, __opt_tgt_de, _de_, @de@
_CODE = "[a-z]{2,3}([-_][A-Z][A-Za-z]{1,3})?"
LANGUAGE_TAG = re.compile(
    rf"<(2|to_|lang:)?{_CODE}>|>>\w+<<|\[[a-z]{{2,3}}_[A-Z]{{2}}\]|[a-z]{{2,3}}_([A-Z]{{2}}|[A-Z][a-z]{{3}})|｟{_CODE}｠"
    rf"|<2\w+>|<BT>|__[a-z]{{2,3}}(_\w+)?__|__opt_(src|tgt)_\w+|_{_CODE}_|@{_CODE}@"
)


def tags_named(names: Optional[str], dictionary: Dictionary) -> List[str]:
    """Return the symbols of *dictionary* that *names*, the value of ``--bert-strip-tags``, stands for, sorted.

    Raises:
        BertFusedError: a name stands for no symbol.
    """
    tags = set()
    for name in names.split(",") if names is not None else []:
        pattern = re.compile(".*".join(map(re.escape, name.strip().split("*"))))
        matches = {symbol for symbol in dictionary.symbols[dictionary.nspecial :] if pattern.fullmatch(symbol)}
        if not matches:
            raise BertFusedError(
                f"--bert-strip-tags must name symbols of the source dictionary, with commas between them, got {names}, "
                f"and no symbol is {name.strip()!r}; put the tags in front of the lines after the words are split into "
                "subwords, so that each tag is one symbol"
            )
        tags |= matches
    return sorted(tags)


def tags_of_task(task: Any) -> List[str]:
    """Return the language tags that *task* itself adds to sentences, as fairseq's multilingual tasks do."""
    if isinstance(task, TranslationMultiSimpleEpochTask):
        style, specs = task.args.lang_tok_style, task.args.langtoks_specs
        return [get_lang_tok(lang, style, spec) for lang in task.langs for spec in specs]
    if isinstance(task, TranslationFromPretrainedBARTTask):
        return [f"[{lang}]" for lang in task.langs]
    return []


def language_tags(dictionary: Dictionary) -> List[str]:
    """Return the symbols of *dictionary* that look like tags of a language."""
    return [symbol for symbol in dictionary.symbols[dictionary.nspecial :] if LANGUAGE_TAG.fullmatch(symbol)]
