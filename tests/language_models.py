"""Tiny random models of the classes that users bring, with tokenizers of their kinds, trained on the spot."""

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    BertConfig,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
    GPT2Config,
    GPT2Model,
    LlamaConfig,
    LlamaModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2Model,
    RobertaConfig,
    RobertaModel,
    XLMRobertaConfig,
    XLMRobertaModel,
)

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
    trainer = trainers.UnigramTrainer(vocab_size=70, special_tokens=special, unk_token="<unk>")
    tokenizer.train_from_iterator(TEXT, trainer)
    ids = [(token, tokenizer.token_to_id(token)) for token in ("<s>", "</s>")]
    tokenizer.post_processor = processors.TemplateProcessing(template, pair, ids)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", **names)


def _bert(lowercase):
    return _word_piece(lowercase), BertModel, BertConfig, {**HEADS, "max_position_embeddings": 40}


def _roberta():
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    tokenizer = _byte_level(["<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True)], **names)
    size = {**HEADS, "max_position_embeddings": 42, "type_vocab_size": 1, "pad_token_id": 1}
    return tokenizer, RobertaModel, RobertaConfig, size


def _xlm_roberta():
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    tokenizer = _sentence_piece(special, "<s> $A </s>", "<s> $A </s> </s> $B </s>", **names)
    size = {**HEADS, "max_position_embeddings": 42, "type_vocab_size": 1, "pad_token_id": 1}
    return tokenizer, XLMRobertaModel, XLMRobertaConfig, size


def _distilbert():
    size = {"dim": 12, "n_heads": 2, "n_layers": 3, "hidden_dim": 20, "max_position_embeddings": 40}
    return _word_piece(True), DistilBertModel, DistilBertConfig, size


def _gpt2():
    names = {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>"}
    size = {"n_embd": 12, "n_layer": 3, "n_head": 2, "n_positions": 40}
    return _byte_level(["<|endoftext|>"], **names), GPT2Model, GPT2Config, size


def _llama():
    names = {"bos_token": "<s>", "eos_token": "</s>"}
    tokenizer = _sentence_piece(["<unk>", "<s>", "</s>"], "<s> $A", "<s> $A <s> $B", **names)
    return tokenizer, LlamaModel, LlamaConfig, {**HEADS, "num_key_value_heads": 1, "max_position_embeddings": 40}


def _qwen():
    names = {"eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"}
    size = {**HEADS, "num_key_value_heads": 1, "max_position_embeddings": 40}
    return _byte_level(["<|endoftext|>", "<|im_start|>", "<|im_end|>"], **names), Qwen2Model, Qwen2Config, size


MAKERS = {
    "BERT, uncased": lambda: _bert(True),
    "BERT, cased": lambda: _bert(False),
    "multilingual BERT": lambda: _bert(False),
    "RoBERTa": _roberta,
    "XLM-R": _xlm_roberta,
    "DistilBERT": _distilbert,
    "GPT-2": _gpt2,
    "Llama": _llama,
    "Qwen": _qwen,
}


def save_language_model(name, directory, **sizes):
    """Save a tiny random model of the class *name*, with its tokenizer, to *directory*; *sizes* replace its own."""
    tokenizer, model_class, config_class, size = MAKERS[name]()
    tokenizer.save_pretrained(directory)
    config = config_class(vocab_size=len(tokenizer), initializer_range=0.3, **{**size, **sizes})
    model_class(config).save_pretrained(directory)
