"""BERT-fused neural machine translation as a plugin of stock fairseq (``--user-dir bert_fused_plugin``).

Data flow (Zhu et al., "Incorporating BERT into Neural Machine Translation", ICLR 2020)::

    raw text ── fairseq-preprocess ──> src_tokens ──────────────> BertFusedEncoder ─> BertFusedDecoder
                                          │                        │  each layer        │  each layer
                                   DictionaryBridge                │  attends to        │  attends to
                                          │                        │  bert_out          │  bert_out
                                     bert_tokens ─> FrozenBert ────┴── bert_out ────────┘

Shapes, in all docstrings: B batch, S source length, L BERT length (word pieces), T target length,
C model width, D BERT width, H attention heads, V vocabulary.  A ``*_padding_mask`` is bool, True is
padding.  ``bert_tokens`` is (B, L), always right-padded.  Layers work time first: (S, B, C).

The map of the package, one line a file::

    bert/                           the pre-trained encoder
      flags.py                      flags of every model that reads BERT's states
      loading.py                    finds and loads BERT, and logs what was loaded
      bridge_loading.py             builds the bridge from the flags of the model and of its task
      hugging_face.py               loads encoders and tokenizers of transformers
      identity.py                   what makes two encoders the same BERT
      pretrained_bert.py            what frozen and fine-tuned BERT have in common
      frozen_bert.py                BERT without gradient, in evaluation mode, outside checkpoints
      finetuned_bert.py             BERT that trains with the model, at a learning rate of its own
      layer_choice.py               which layers --bert-layer means
      sentence_encoder.py           encoders of whole sentences, whose last layer serves less
      positions.py                  how many tokens an encoder can read
      length_groups.py              sentences of a batch by length, so that little is computed for padding
      padding_check.py              whether padding changes what an encoder computes
      layer_mix.py                  one state for each word piece from several layers of BERT
      reading.py                    how an encoder gets BERT's states of a batch
      half_range.py                 whether half precision can hold BERT's states
      state_cache.py                BERT's states of the sentences that were read last, in memory
      record.py                     what a checkpoint says about its BERT
      pytorch_pretrained_bert.py    BERT in the format that bert-nmt reads
      checkpoint_checks.py          errors for a checkpoint whose dictionaries or BERT do not fit
    data/                           from fairseq's token ids to BERT's input
      dictionary_bridge.py          ids -> text -> word pieces
      subwords.py                   the table of subwords: how a dictionary shows them, and how they become text
      tags.py                       tags of languages, which are no text
      raw_text.py                   --bert-text: raw source text in place of the rebuilt text
      typed_text.py                 does the text of a user fit the dictionary?
      document_context.py           --bert-context: the sentences before the current one
      bert_pair_dataset.py          fairseq's translation dataset with BERT's input
      collate.py                    BERT's rows of a batch, padded on the right
      data_bin.py                   what is read from a data-bin beside what fairseq reads
      cached_states.py              --bert-cache: BERT's states of a data set on disk
      word_pieces.py                BERT's input of a data set, as flat arrays in memory or in files
      tokenizing.py                 makes BERT's input, from any sentence on
      kept_pieces.py                makes BERT's input of a corpus once, for all processes and later runs
      shared_work.py                work that ranks share, and whose results are files
    modules/                        the parts of the papers' figures, and what they need; they import no other folder
      bert_fused_encoder_layer.py   a layer of the encoder (Zhu et al., figure 1, left)
      bert_fused_decoder_layer.py   a layer of the decoder (Zhu et al., figure 1, right)
      fused_layer.py                what both layers have in common
      fusion.py                     the table of fusions: how BERT's states join the model
      drop_net.py                   drop-net (Zhu et al., section 4.2)
      cross_attention.py            attention to another encoder's states
      folded_memory.py              what it reads in the search, if sentences are few and short
      plain_linear.py               whether a linear map may be replaced by products with its weight
      self_attention.py             self-attention, and its steps in the search
      mapped_attention.py           what both have in common: attention whose map can be chosen
      attention_map.py              the table of maps from scores to weights
      sublayer.py                   the residual connection and layer norm around a part of a layer
      recurrent_attention.py        the table of attentions of the recurrent models
      attention_steps.py            its energies and their gradients in many steps
      recurrent_loop.py             the recurrent decoder's loop as one function
      attention_memory.py           what a recurrent decoder attends to
      conditional_gru.py            the decoder's recurrent unit (Bahdanau et al., appendix A.2.2)
      deep_output.py                maxout and output matrix (Bahdanau et al., appendix A.2.2)
      sequence_dropout.py           dropout of units, of the same units everywhere, of words
      beam_order.py                 keeps once what all beams of a sentence share
      weight_layout.py              puts weights in the order that makes products of few rows fast
      device_copy.py                copies to and from a GPU for which nobody waits
      batch_rng.py                  random numbers that belong to a batch, on any rank
      zero_gradients.py             zeros as the gradient of what a step leaves out
    models/                         the architectures
      presets.py                    presets for the command line and for YAML files
      embeddings.py                 embeddings, which may come from a file
      search_scores.py              log-probabilities of a step of the search, in the memory of the scores
      hub.py                        a finished model in Python, for raw text
      other_parameters.py           how a checkpoint differs from the model that cannot load it, or is no numbers
      learned_alphas.py             what the heads have learned about these maps
      attention_map_flags.py        what the flags of these maps have in common
      task_check.py                 refuses tasks of fairseq, and switches of theirs, that do not fit the models
      settings_record.py            what a checkpoint says about its settings, and errors for other settings
      bert_fused/                   the BERT-fused transformer: the model and its presets
        config.py                   its flags
        config_checks.py            the rules that its flags must obey
        settings.py                 the settings that its checkpoints record
        encoder.py                  fairseq's encoder, whose layers attend to BERT
        decoder.py                  fairseq's decoder, whose layers attend to BERT
        layer_building.py           from flags to layers, for both
        pruning.py                  the layers of a checkpoint that a smaller model keeps
        warm_start.py               --bert-warm-start
        stock_checkpoint.py         a transformer in a fairseq checkpoint
        bert_nmt/                   a checkpoint of the authors' code becomes one of this package
          flags.py                  its flags
          layers.py                 its layers that attend to BERT
          weights.py                its parameters
      gru_bahdanau/                 RNNsearch and its relatives: the model and its presets
        config.py                   their flags, and the rules that these must obey
        settings.py                 the settings that their checkpoints record
        encoder.py                  the bidirectional encoder
        decoder.py                  the decoder with attention
        decoder_cache.py            what it keeps from step to step
        initialisation.py           --rnn-init: the first values of the parameters
    tasks/                          the task
      bert_fused_translation.py     fairseq's translation task with BERT's input in every batch
      bert_fused_translation_config.py  its flags
      ensembles.py                  members that differ in BERT, or do not read it
      bert_cache.py                 --bert-cache for the data sets of the task, and the folders in its directory
    criterions/                     the criterion
      label_smoothed_cross_entropy.py  cross entropy with label smoothing over the vocabulary
      smoothed_loss.py              its value and its gradient
      projected_loss.py             both, and those of the output matrix, without the scores of all positions at once
    checkpoints/                    finished models as files
      averaging.py                  the mean of checkpoints
      model_directory.py            a model as a directory that can be moved
      subword_check.py              whether its subword tool splits as the training data was split
      subword_files.py              the subword tool as a part of that directory
      bert_directory.py             BERT as a part of that directory
      files.py                      reads checkpoints, and writes files whole or not at all
      bert_nmt.py                   reads a checkpoint of the authors' code, and writes the imported one
      training_settings.py          settings that a finished model does not need
    reports/                        does BERT help, and what do translations attend to?
      comparison.py                 all figures of the report
      verdicts.py                   its sentences: is it better, is that fair, is BERT used?
      runs.py                       the runs that are compared
      decoding.py                   translates a test set as fairseq-generate does
      scoring.py                    sacreBLEU's scores and their significance
      bert_ablations.py             BERT off, BERT of another sentence, BERT with random weights
      buckets.py                    groups of sentences, by length and by rare words
      training_log.py               curves from what fairseq-train printed
      attention.py                  weights, entropy, alignments and gates
      sparsity.py                   exact zeros, by head
      recording.py                  what some modules compute in a pass
      words.py                      words from subwords
      unspaced.py                   languages that are written without spaces
      charts.py                     where the lines of a chart go
      page.py                       the page and the JSON; templates/ has its HTML
    commands/                       the installed commands
      compare.py                    bert-fused-compare
      plot_attention.py             bert-fused-attention
      export_model.py               bert-fused-export
      average_checkpoints.py        bert-fused-average
      import_bert_nmt.py            bert-fused-import
      cache.py                      bert-fused-cache
    checkpoint_opening.py           opens a checkpoint, or says why it cannot be read
    checkpoint_origin.py            from which checkpoint a training began
    files.py                        files that are written whole, or not at all
    progress.py                     what a long piece of work does now, and how long it takes
    json_record.py                  a text in a checkpoint, in which a model says something about itself
    setup_messages.py               what matters of the log of a set-up, said once more before training
    errors.py                       errors with flag, rule, value and remedy, without a stack trace
"""

from bert_fused_plugin.errors import install_excepthook

install_excepthook()

# fairseq's --user-dir imports models/ and tasks/ by itself, but not criterions/;
# `import bert_fused_plugin` alone registers everything too.
from bert_fused_plugin import criterions, models, tasks  # noqa: E402

__all__ = ["criterions", "models", "tasks"]
