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


ENDS = {"bos_token": "<s>", "eos_token": "</s>"}
XLM_R_SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
ROBERTA_SPECIAL = [*XLM_R_SPECIAL[:-1], AddedToken("<mask>", lstrip=True)]
GPT = "<|endoftext|>"
POSITIONS = {"max_position_embeddings": 40}
ROBERTA = {**HEADS, "max_position_embeddings": 42, "type_vocab_size": 1, "pad_token_id": 1}
DISTIL = {"dim": 12, "n_heads": 2, "n_layers": 3, "hidden_dim": 20, **POSITIONS}

# name: what makes the tokenizer, the classes of the model and of its configuration, and its sizes
MAKERS = {
    "BERT, uncased": (lambda: _word_piece(True), BertModel, BertConfig, {**HEADS, **POSITIONS}),
    "BERT, cased": (lambda: _word_piece(False), BertModel, BertConfig, {**HEADS, **POSITIONS}),
    "RoBERTa": (
        lambda: _byte_level(ROBERTA_SPECIAL, **ENDS, pad_token="<pad>", unk_token="<unk>"),
        RobertaModel, RobertaConfig, ROBERTA,
    ),
    "XLM-R": (
        lambda: _sentence_piece(
            XLM_R_SPECIAL, "<s> $A </s>", "<s> $A </s> </s> $B </s>", **ENDS, pad_token="<pad>"
        ),
        XLMRobertaModel, XLMRobertaConfig, ROBERTA,
    ),
    "DistilBERT": (lambda: _word_piece(True), DistilBertModel, DistilBertConfig, DISTIL),
    "GPT-2": (
        lambda: _byte_level([GPT], bos_token=GPT, eos_token=GPT, unk_token=GPT),
        GPT2Model, GPT2Config, {"n_embd": 12, "n_layer": 3, "n_head": 2, "n_positions": 40},
    ),
    "Llama": (
        lambda: _sentence_piece(["<unk>", "<s>", "</s>"], "<s> $A", "<s> $A <s> $B", **ENDS),
        LlamaModel, LlamaConfig, {**HEADS, "num_key_value_heads": 1, **POSITIONS},
    ),
    "Qwen": (
        lambda: _byte_level([GPT, "<|im_start|>", "<|im_end|>"], eos_token=GPT, pad_token=GPT),
        Qwen2Model, Qwen2Config, {**HEADS, "num_key_value_heads": 1, **POSITIONS},
    ),
}  # fmt: skip


def save_language_model(name, directory, **sizes):
    """Save a tiny random model of the class *name*, with its tokenizer, to *directory*; *sizes* replace its own."""
    make_tokenizer, model_class, config_class, size = MAKERS[name]
    tokenizer = make_tokenizer()
    tokenizer.save_pretrained(directory)
    config = config_class(vocab_size=len(tokenizer), initializer_range=0.3, **{**size, **sizes})
    model_class(config).save_pretrained(directory)
