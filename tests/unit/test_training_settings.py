from fairseq.tasks.translation import TranslationConfig

from bert_fused_plugin.tasks.bert_fused_translation_config import BertFusedTranslationConfig, training_defaults


def test_what_only_training_needs_goes_back_to_its_default():
    defaults = training_defaults()
    assert (defaults["bert_text"], defaults["bert_cache"], defaults["bert_documents"]) == (None, None, None)
    assert (defaults["num_batch_buckets"], defaults["eval_bleu"]) == (0, False)
    assert defaults["train_subset"] == "train"  # of the data, which this setting refers to


def test_what_the_model_is_and_how_its_data_is_read_stays():
    kept = {"data", "source_lang", "target_lang", "left_pad_source", "max_source_positions", "dataset_impl"}
    assert not kept & set(training_defaults())
    fields = set(BertFusedTranslationConfig.__dataclass_fields__)
    assert fields > set(TranslationConfig.__dataclass_fields__)
    assert set(training_defaults()) < fields
