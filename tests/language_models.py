"""Tiny random models of the classes that users bring, with tokenizers of their kinds, trained on the spot."""

import json
import tempfile
from pathlib import Path

import pytest
import transformers
from slow_tokenizers import JAPANESE, SLOW, VIETNAMESE
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

TEXT = [
    "the old man sees a dog .",
    "a big House , red apple !",
    "the small woman gives the dog an apple",
    "Ünï ß 狗",
] * 4
HEADS = {"num_attention_heads": 2, "num_hidden_layers": 3, "hidden_size": 12, "intermediate_size": 20}


def _word_piece(lowercase):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase, strip_accents=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(TEXT, trainers.WordPieceTrainer(vocab_size=90, special_tokens=special))
    ids = [(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", ids)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )


def _byte_level(special, **names):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=special, initial_alphabet=alphabet)
    tokenizer.train_from_iterator(TEXT, trainer)
    if "<s>" in special:
        ends = [(token, tokenizer.token_to_id(token)) for token in ("</s>", "<s>")]
        tokenizer.post_processor = processors.RobertaProcessing(*ends, add_prefix_space=False)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


def _sentence_piece(special, template, pair, **names):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.train_from_iterator(TEXT, _unigram_trainer(special))
    ids = [(token, tokenizer.token_to_id(token)) for token in ("<s>", "</s>")]
    tokenizer.post_processor = processors.TemplateProcessing(template, pair, ids)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", **names)


def _unigram_trainer(special):
    return trainers.UnigramTrainer(vocab_size=70, special_tokens=special, unk_token="<unk>")


ENDS = {"bos_token": "<s>", "eos_token": "</s>"}
XLM_R_SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
ROBERTA_SPECIAL = [*XLM_R_SPECIAL[:-1], AddedToken("<mask>", lstrip=True)]
GPT = "<|endoftext|>"


def _slow(name, text=None):
    def make(directory):
        with tempfile.TemporaryDirectory() as folder:
            SLOW[name](Path(folder), text or TEXT).save_pretrained(directory)

    return make


def _of_languages(kind, default, *others):
    """Make tokenizers of the class *kind*, which put the code of a language, such as the *default*, beside the text."""

    def make(directory):
        special = [*XLM_R_SPECIAL, default, *others]
        if kind == "NllbTokenizer":
            tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
            trainer = trainers.BpeTrainer(vocab_size=90, special_tokens=special)
        else:
            tokenizer, trainer = Tokenizer(models.Unigram()), _unigram_trainer(special)
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        tokenizer.train_from_iterator(TEXT, trainer)
        names = {"pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<mask>", "sep_token": "</s>"}
        made = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **ENDS, **names)
        made.save_pretrained(directory)
        file = Path(directory) / "tokenizer_config.json"
        config = {**json.loads(file.read_text()), "tokenizer_class": kind}
        file.write_text(json.dumps({**config, "additional_special_tokens": [default, *others]}))

    return make


TOKENIZERS = {
    "uncased": lambda: _word_piece(True),
    "cased": lambda: _word_piece(False),
    "RoBERTa": lambda: _byte_level(ROBERTA_SPECIAL, **ENDS, pad_token="<pad>", unk_token="<unk>"),
    "XLM-R": lambda: _sentence_piece(
        XLM_R_SPECIAL, "<s> $A </s>", "<s> $A </s> </s> $B </s>", **ENDS, pad_token="<pad>"
    ),
    "T5": lambda: _sentence_piece(
        ["<pad>", "</s>", "<unk>", "<s>"], "$A </s>", "$A </s> $B </s>", eos_token="</s>", pad_token="<pad>"
    ),
    "GPT-2": lambda: _byte_level([GPT], bos_token=GPT, eos_token=GPT, unk_token=GPT),
    "Llama": lambda: _sentence_piece(["<unk>", "<s>", "</s>"], "<s> $A", "<s> $A <s> $B", **ENDS),
    "Qwen": lambda: _byte_level([GPT, "<|im_start|>", "<|im_end|>"], eos_token=GPT, pad_token=GPT),
}
POSITIONS = {"max_position_embeddings": 40}
ENCODER = {**HEADS, **POSITIONS}
ROBERTA = {**HEADS, "max_position_embeddings": 42, "type_vocab_size": 1, "pad_token_id": 1}
CAUSAL = {**ENCODER, "num_key_value_heads": 1}
TRANSLATION = {
    **{"d_model": 12, "encoder_layers": 3, "encoder_attention_heads": 2, "encoder_ffn_dim": 20, "decoder_layers": 1},
    **{"decoder_attention_heads": 2, "decoder_ffn_dim": 20, "pad_token_id": 1, "init_std": 0.3, **POSITIONS},
}
XLM = {"emb_dim": 12, "n_layers": 3, "n_heads": 2, "pad_index": 2, "embed_init_std": 0.3, "init_std": 0.3, **POSITIONS}

# name: the tokenizer, the class of the model, and its sizes
LANGUAGES = {"mBART": "src_lang=vi_VN", "NLLB": "src_lang=vie_Latn", "M2M100": "src_lang=vi"}
MAKERS = {
    "BERT, uncased": ("uncased", "Bert", ENCODER),
    "BERT, cased": ("cased", "Bert", ENCODER),
    "RoBERTa": ("RoBERTa", "Roberta", ROBERTA),
    "XLM-R": ("XLM-R", "XLMRoberta", ROBERTA),
    "DistilBERT": ("uncased", "DistilBert", {"dim": 12, "n_heads": 2, "n_layers": 3, "hidden_dim": 20, **POSITIONS}),
    "GPT-2": ("GPT-2", "GPT2", {"n_embd": 12, "n_layer": 3, "n_head": 2, "n_positions": 40}),
    "Llama": ("Llama", "Llama", CAUSAL),
    "Qwen": ("Qwen", "Qwen2", CAUSAL),
    "CamemBERT": ("XLM-R", "Camembert", ROBERTA),
    "ALBERT": ("uncased", "Albert", {**ENCODER, "embedding_size": 8}),
    "ELECTRA": ("uncased", "Electra", {**ENCODER, "embedding_size": 8}),
    "MPNet": ("uncased", "MPNet", {**HEADS, "max_position_embeddings": 42, "pad_token_id": 1}),
    "DeBERTa-v2": (
        "T5", "DebertaV2",
        {**ENCODER, "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False},
    ),
    "ModernBERT": ("uncased", "ModernBert", {**ENCODER, "pad_token_id": 0, "local_attention": 8}),
    "BigBird": ("XLM-R", "BigBird", {**ENCODER, "attention_type": "original_full"}),
    "RemBERT": ("uncased", "RemBert", {**ENCODER, "input_embedding_size": 8}),
    "T5": ("T5", "T5", {"d_model": 12, "d_kv": 6, "d_ff": 20, "num_layers": 3, "num_heads": 2}),
    "mT5": ("T5", "MT5", {"d_model": 12, "d_kv": 6, "d_ff": 20, "num_layers": 3, "num_heads": 2}),
    "mBART": (_of_languages("MBartTokenizer", "en_XX", "vi_VN"), "MBart", TRANSLATION),
    "NLLB": (_of_languages("NllbTokenizer", "eng_Latn", "vie_Latn"), "M2M100", TRANSLATION),
    "M2M100": (_slow("M2M100"), "M2M100", {**TRANSLATION, "vocab_size": 200}),
    "Marian": (_slow("Marian"), "Marian", TRANSLATION),
    "Gemma": ("Llama", "Gemma", {**CAUSAL, "head_dim": 6}),
    "PhoBERT": (_slow("PhoBERT", VIETNAMESE + TEXT), "Roberta", ROBERTA),
    "BERT, Japanese": (_slow("BERT, MeCab", JAPANESE + TEXT), "Bert", ENCODER),
    "FlauBERT": (_slow("FlauBERT"), "Flaubert", XLM),
    "XLM": (_slow("XLM"), "XLM", XLM),
}  # fmt: skip


def save_language_model(name, directory, **sizes):
    """Save a tiny random model of the class *name*, with its tokenizer, to *directory*; *sizes* replace its own."""
    make, kind, size = MAKERS[name]
    if not hasattr(transformers, f"{kind}Model"):
        pytest.skip(f"transformers {transformers.__version__} has no {kind}")
    if make in TOKENIZERS:
        TOKENIZERS[make]().save_pretrained(directory)
    else:
        make(directory)
    config = {"vocab_size": len(AutoTokenizer.from_pretrained(directory)), "initializer_range": 0.3, **size, **sizes}
    model, config_class = (getattr(transformers, kind + what) for what in ("Model", "Config"))
    model(config_class(**config)).save_pretrained(directory)
