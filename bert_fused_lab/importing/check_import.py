"""Compare an imported model with transformers: symbols, scores and translations of the sentences on standard input.

    bert-fused-import hf Helsinki-NLP/opus-mt-en-de imported
    head -20 test.en | python -m bert_fused_lab.importing.check_import Helsinki-NLP/opus-mt-en-de imported

It ends with an error if symbols or scores differ.  Translations may: transformers leaves the probability of a language
tag out of the score of a sentence, and both search for a best sentence in slightly different ways.
"""

import sys
from argparse import Namespace
from typing import List

import torch
from fairseq.checkpoint_utils import load_model_ensemble_and_task
from fairseq.sequence_generator import SequenceGenerator
from sentencepiece import SentencePieceProcessor
from torch import Tensor
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from bert_fused_lab.importing.hf_vocabulary import read_vocabulary

TOLERANCE = 1e-3  # of scores; random models have differences of 1e-5


class Both:
    """A model of transformers, by name or directory, and the directory that bert-fused-import has made of it."""

    def __init__(self, name: str, imported: str) -> None:
        self.hf = AutoModelForSeq2SeqLM.from_pretrained(name, torch_dtype=torch.float32).eval()
        [model], _, task = load_model_ensemble_and_task(
            [f"{imported}/checkpoint.pt"], arg_overrides={"data": str(imported)}
        )
        self.model, self.source, self.target = model.eval(), task.source_dictionary, task.target_dictionary
        languages = [task.cfg.source_lang, task.cfg.target_lang]
        self.is_marian, tokenizer = self.hf.config.model_type == "marian", AutoTokenizer.from_pretrained(name)
        vocabulary = read_vocabulary(str(name), tokenizer, self.hf.config, languages)
        self.symbols, self.tags = vocabulary.symbols, vocabulary.tags
        codes = {} if self.is_marian else dict(zip(("src_lang", "tgt_lang"), (tag.strip("_") for tag in self.tags)))
        self.tokenizer = AutoTokenizer.from_pretrained(name, **codes)
        self.pieces = [SentencePieceProcessor(model_file=f"{imported}/{side}.spm") for side in ("source", "target")]

    def tokens(self, line: str, side: int = 0) -> List[str]:
        """Return the symbols that fairseq reads for a *line* of the source, or of the target with *side* 1."""
        dictionary = (self.source, self.target)[side]
        tag = [self.tags[side]] if self.tags[side] else []
        line = " ".join([*tag, *self.pieces[side].encode(line.strip(), out_type=str)])
        return [dictionary[i] for i in dictionary.encode_line(line, add_if_not_exist=False).tolist()]

    def hf_tokens(self, line: str, side: int = 0) -> List[str]:
        """Return those that transformers reads."""
        text = f"{self.tags[0]} {line}" if self.is_marian and self.tags[0] and side == 0 else line
        encoded = self.tokenizer(text_target=text) if side else self.tokenizer(text)
        return [self.symbols[side][i] for i in encoded["input_ids"]]

    def ids(self, symbols: List[str], side: int) -> Tensor:
        """Return the numbers of *symbols* for transformers."""
        return torch.tensor([list(map(self.symbols[side].index, symbols))], dtype=torch.long)

    def translations(self, lines: List[str], length: int = 200, lenpen: float = 1.0) -> List[List[List[str]]]:
        """Return for each line the symbols of the best translation by transformers and by fairseq, with beam 5."""
        # fairseq makes at least one symbol, and no padding
        rules = {"min_new_tokens": 1, "bad_words_ids": [[self.hf.config.pad_token_id]], "early_stopping": True}
        generator = SequenceGenerator([self.model], self.target, beam_size=5, max_len_b=length, len_penalty=lenpen)
        forced, pairs = {}, []
        if self.tags[1]:
            forced["forced_bos_token_id"] = self.ids([self.tags[1]], 1).item()
        for line in lines:
            source = self.tokens(line)
            output = self.hf.generate(
                self.ids(source, 0), num_beams=5, max_new_tokens=length + 1, length_penalty=lenpen,
                do_sample=False, **rules, **forced,
            )[0].tolist()[1:]  # fmt: skip
            net = {"src_tokens": torch.tensor([[self.source.index(symbol) for symbol in source]])}
            net["src_lengths"] = torch.tensor([len(source)])
            prefix = torch.tensor([[self.target.index(self.tags[1])]]) if self.tags[1] else None
            [best, *_] = generator.generate([self.model], {"net_input": net}, prefix_tokens=prefix)[0]
            pairs.append([[self.symbols[1][i] for i in output], [self.target[i] for i in best["tokens"].tolist()]])
        return pairs

    def difference(self, line: str, target: List[str]) -> float:
        """Return the largest difference of log-probabilities, for a *line* and the symbols of a translation.

        If the import has a part of the vocabulary, those of transformers are also among these symbols.
        """
        source, known = self.tokens(line), [symbol for symbol in self.symbols[1] if symbol in self.target.indices]
        columns = [list(map(place, known)) for place in (self.symbols[1].index, self.target.index)]
        start = torch.tensor([[self.hf.config.decoder_start_token_id]])
        with torch.no_grad():
            before = torch.cat([start, self.ids(target[:-1], 1)], dim=1)
            theirs = self.hf(input_ids=self.ids(source, 0), decoder_input_ids=before).logits
            tokens = torch.tensor([[self.source.index(symbol) for symbol in source]])
            previous = torch.tensor([[self.target.eos(), *map(self.target.index, target[:-1])]])
            ours = self.model(tokens, torch.tensor([len(source)]), previous)[0].log_softmax(-1)
        return float((theirs[..., columns[0]].log_softmax(-1) - ours[..., columns[1]]).abs().max())


def main(args: Namespace) -> None:
    """Compare, and print what was found.

    Raises:
        SystemExit: symbols or scores differ.
    """
    both, lines = Both(args.model, args.imported), [line.strip() for line in args.text if line.strip()]
    if not lines:
        raise SystemExit("error: give sentences of the source language on standard input")
    symbols = both.source.indices.keys()  # perhaps of a part of the vocabulary
    known = [line for line in lines if {*both.hf_tokens(line)} <= symbols]
    same_symbols = sum(both.tokens(line) == both.hf_tokens(line) for line in known)
    translated = both.translations(lines)
    worst = max(both.difference(line, ours) for line, (_, ours) in zip(lines, translated))
    for theirs, ours in translated:
        print("\n".join(both.pieces[1].decode([s for s in best[:-1] if s != both.tags[1]]) for best in (theirs, ours)))
    equal = sum(theirs == ours for theirs, ours in translated)
    print(f"of {len(lines)} sentences, {same_symbols} have the same symbols, and {equal} the same translation")
    print(f"log-probabilities differ by at most {worst:.1e}")
    if len(known) < len(lines):
        print(f"{len(lines) - len(known)} have symbols that the import has left out")
    if same_symbols < len(known) or worst > TOLERANCE:
        raise SystemExit("error: the imported model is another one; report the model's name and these lines")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    main(Namespace(model=sys.argv[1], imported=sys.argv[2], text=sys.stdin))
