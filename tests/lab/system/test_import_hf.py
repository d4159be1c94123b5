"""bert-fused-import hf and bert-fused-export hf: both programs compute the same, of random models of each family."""

import json
import re
import shutil
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest
import torch
from fairseq.checkpoint_utils import load_model_ensemble_and_task
from fairseq.data import Dictionary
from fork_server import ENVIRONMENT
from helpers import assert_close
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
from translation_models import MODELS, TEXT, lines, write

from bert_fused_lab.exporting import export_model
from bert_fused_lab.importing import check_import, import_bert_nmt
from bert_fused_lab.importing.check_import import Both
from bert_fused_lab.importing.hf_models import EMBEDDINGS
from bert_fused_lab.importing.hf_vocabulary import same_language
from bert_fused_plugin.errors import BertFusedError

ODD = ["", "x\u00a0y é ﬁ １２", "𝔘 unknown ☃ words", "a  b", ">> < |", "हिन्दी و٣ ﷺ"]
TAGS, NLLB, TAG = "OPUS-MT, tags", "NLLB", ">>fra<<"


def convert(*words):
    import_bert_nmt.main(["hf", *map(str, words)])


def export(*words):
    export_model.main(["hf", *map(str, words)])


@pytest.fixture(scope="session")
def imported(tmp_path_factory):
    """A function that gives a model's directory, that of its import, and both loaded, once for all tests."""
    made = {}

    def get(name):
        if name not in made:
            path = tmp_path_factory.mktemp("model")
            make, options, languages = MODELS[name]
            (path / "original").mkdir()
            make(path / "original", **options)
            convert(path / "original", path / "imported", *languages)
            made[name] = (path / "original", path / "imported", Both(path / "original", path / "imported"))
        return made[name]

    return get


def largest_difference(both, count=20):
    return max(both.difference(line, both.hf_tokens(other, 1)) for line, other in zip(lines(count, 3), lines(count, 4)))


@pytest.mark.parametrize("name", MODELS)
def test_symbols_scores_and_translations_are_those_of_transformers(imported, name):
    _, directory, both = imported(name)
    for side in (0, 1):  # transformers' fast tokenizers make a piece of spaces at the end, which sentencepiece does not
        for line in (*lines(200, 1), *ODD):
            assert both.tokens(line, side) == both.hf_tokens(line, side)
    symbols = [Dictionary.load(str(file)).symbols for file in sorted(directory.glob("dict.*.txt"))]
    assert sorted(map(len, symbols)) == sorted(map(len, [both.source, both.target]))
    assert largest_difference(both) < 1e-5
    # transformers leaves the tag's probability out of the score, which does not matter without a norm for the length
    found = both.translations(lines(100, 7), length=15, lenpen=0.0 if both.tags[1] else 1.0)
    ended = [(theirs, ours) for theirs, ours in found if theirs[-1] == "</s>"]  # at the limit, only fairseq ends them
    assert len(ended) > 60
    assert len({len(theirs) for theirs, _ in ended}) > 2
    assert sum(theirs == ours for theirs, ours in ended) >= 0.98 * len(ended)


@pytest.mark.parametrize("name", MODELS)
def test_the_way_back_gives_the_same_tensors_and_that_of_a_trained_model_the_same_scores(imported, name, tmp_path):
    original, directory, _ = imported(name)
    export(directory / "checkpoint.pt", tmp_path / "same")
    before, after = (load_file(path / "model.safetensors") for path in (original, tmp_path / "same"))
    unused = {"model.shared.weight"} if "untied" in name else {"final_logits_bias"} if name == "mBART-50" else set()
    assert set(before) - set(after) == unused
    for key in set(before) & set(after):
        assert torch.equal(before[key], after[key]), key

    state = torch.load(directory / "checkpoint.pt", weights_only=False)
    torch.manual_seed(2)
    for tensor in {id(value): value for value in state["model"].values() if value.dim() > 1}.values():
        tensor.add_(0.02 * torch.randn_like(tensor))
    for table in EMBEDDINGS:  # transformers keeps neither Marian's <s>, which it lacks, nor its trained padding
        state["model"][table][:2] = 0
    torch.save(state, tmp_path / "trained.pt")
    export(tmp_path / "trained.pt", tmp_path / "trained", "--imported", directory)
    trained = Both(tmp_path / "trained", directory)
    assert largest_difference(trained) > 0.01
    trained.model.load_state_dict(state["model"])
    assert largest_difference(trained) < 1e-5
    state["model"][EMBEDDINGS[2]][:2] += 1  # as any training does
    torch.save(state, tmp_path / "trained.pt")
    export(tmp_path / "trained.pt", tmp_path / "again", "--imported", directory)


def test_a_configuration_in_half_precision_rounds_no_weight(imported, tmp_path):
    original, *_ = imported(TAGS)
    half = shutil.copytree(original, tmp_path / "half")
    config = json.loads((half / "config.json").read_text(encoding="utf-8"))
    write(half, "config.json", {**config, "dtype": "float16", "torch_dtype": "float16"})
    convert(half, tmp_path / "imported", *MODELS[TAGS][2])
    export(tmp_path / "imported" / "checkpoint.pt", tmp_path / "exported")
    before, after = (load_file(path / "model.safetensors") for path in (original, tmp_path / "exported"))
    assert all(torch.equal(before[key], after[key]) for key in before)
    assert AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "exported").dtype == torch.float32


def test_a_part_of_the_vocabulary_is_what_text_letters_and_tags_need(imported, tmp_path, capsys):
    original, _, whole = imported(NLLB)
    text = TEXT[:3]
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in text), encoding="utf-8")
    convert(original, tmp_path / "part", *MODELS[NLLB][2], "--vocabulary-of", tmp_path / "text")
    both = Both(original, tmp_path / "part")
    assert re.search(r"symbols \(\d+% less than .*, of 366 symbols\)", capsys.readouterr().out)
    check_import.main(Namespace(model=original, imported=tmp_path / "part", text=[*text, *lines(9, 9)]))
    said = capsys.readouterr().out
    assert re.search(r"of 12 sentences, \d+ have the same symbols", said)
    assert "have symbols that the import has left out" in said
    for line in text:
        assert both.tokens(line) == whole.tokens(line)
        assert both.difference(line, both.tokens(line, 1)) < 1e-5
    used = {symbol for line in text for symbol in both.tokens(line)}
    kept = both.source.symbols[4:]
    assert all(len(s.strip("\u2581")) <= 1 or s in used or re.fullmatch(r"\w{3}_\w{4}|<mask>", s) for s in kept)
    assert len(kept) < len(whole.source) - 30
    assert {*used, "deu_Latn", "o"} <= set(both.source.symbols)
    for line in lines(50, 9):  # other text is split into what there is
        assert "<unk>" not in both.tokens(line)
    state = torch.load(tmp_path / "part" / "checkpoint.pt", weights_only=False)
    state["model"][EMBEDDINGS[0]][-1] += 1  # the last symbol is trained
    torch.save(state, tmp_path / "trained.pt")
    export(tmp_path / "trained.pt", tmp_path / "exported", "--imported", tmp_path / "part")
    before, after = (load_file(path / "model.safetensors") for path in (original, tmp_path / "exported"))
    assert before.keys() == after.keys()
    number = AutoTokenizer.from_pretrained(original).convert_tokens_to_ids(both.source.symbols[-1])
    before["model.shared.weight"][number] += 1
    for key, value in before.items():
        assert torch.equal(after[key], value), key
    shutil.move(original, tmp_path / "gone")
    with pytest.raises(BertFusedError, match="cannot be loaded"):
        export(tmp_path / "trained.pt", tmp_path / "new", "--imported", tmp_path / "part")
    shutil.move(tmp_path / "gone", original)


def edit(path, **values):
    write(path, "config.json", {**json.loads((path / "config.json").read_text()), **values})


def edit_weights(path, change):
    weights = load_file(path / "model.safetensors")
    change(weights)
    save_file(weights, path / "model.safetensors", {"format": "pt"})


BIAS = "model.decoder.layers.1.fc2.bias"


@pytest.mark.parametrize(
    ("change", "words", "message"),
    [
        (lambda path: edit(path, model_type="pegasus"), "", "is a model of the type pegasus, and only marian"),
        (lambda path: write(path, "config.json", {"model_type": "t5"}), "", "is a model of the type t5, and only"),
        (lambda path: edit(path, activation_function="quick_gelu"), "", "has the activation quick_gelu; give a model"),
        (lambda path: edit(path, decoder_start_token_id=7), "", "begins translations with the symbol 7"),
        (lambda path: edit(path, decoder_layers=4), "", r"lacks model\.decoder\.layers\.3\."),
        (
            lambda path: edit_weights(path, lambda weights: weights.pop(BIAS)),
            "",
            r"lacks model\.decoder\.layers\.1\.fc2\.bias",
        ),
        (lambda path: edit_weights(path, lambda weights: weights[BIAS].fill_(torch.nan)), "", "not finite in 1 param"),
        (lambda path: (path / "sentencepiece.bpe.model").unlink(), "", "cannot be loaded|has no sentencepiece"),
        (lambda path: (path / "model.safetensors").unlink(), "", "cannot be loaded .*; give a directory with config"),
        (lambda path: None, "-t xx", "has no __xx__; name xx as in .*, en .M2M100"),
        (lambda path: None, "-s ", "does not say its languages; give --source-lang"),
        (lambda path: None, "-s pt-BR", "pt-BR and .*: fairseq takes a hyphen for the one between two languages"),
        (lambda path: None, "--vocabulary-of no.txt", "--vocabulary-of no.txt cannot be read"),
    ],
)
def test_what_cannot_be_imported_is_an_error_and_nothing_is_written(imported, tmp_path, change, words, message):
    path = tmp_path / "model"
    shutil.copytree(imported("M2M100")[0], path)
    change(path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(BertFusedError, match=message):
        convert(path, tmp_path / "new", "-s", "en", "-t", "fr", *(words + " ").split(" ")[: 2 if words else 0])
    assert sorted(tmp_path.rglob("*")) == before


def test_other_checkpoints_are_not_exported_and_a_language_without_a_tag_is_not_imported(imported, tmp_path):
    original, directory, _ = imported(TAGS)
    with pytest.raises(BertFusedError, match="has no >>xyz<<; name xyz as in >>deu<<, >>fra<<"):
        convert(original, tmp_path / "new", "-t", "xyz")
    with pytest.raises(BertFusedError, match="exists and is not empty; name a new directory"):
        convert(original, directory, "-t", "fra")
    other = imported("M2M100")[1]
    for checkpoint, place, message in (
        (other, directory, "differs from the model in .* in --encoder-learned-pos; give a plain"),
        (directory, tmp_path, "is no import; give the directory that bert-fused-import hf wrote: --imported DIR"),
    ):
        with pytest.raises(BertFusedError, match=message):
            export(checkpoint / "checkpoint.pt", tmp_path / "new", "--imported", place)
    state = torch.load(directory / "checkpoint.pt", weights_only=False)
    state["model"]["decoder.embed_tokens.weight"] = state["model"]["decoder.embed_tokens.weight"] + 1
    torch.save(state, tmp_path / "untied.pt")
    with pytest.raises(BertFusedError, match=r"would read another \w+\.embed_tokens\.weight; train with"):
        export(tmp_path / "untied.pt", tmp_path / "new", "--imported", directory)
    with pytest.raises(BertFusedError, match="is no import; give the dir"):
        export(tmp_path / "untied.pt", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_model_of_two_languages_is_imported_for_others_with_a_warning(imported, tmp_path, capsys):
    original = imported("OPUS-MT")[0]
    capsys.readouterr()
    convert(original, tmp_path / "same", "-s", "eng", "-t", "de_AT")
    convert(original, tmp_path / "swapped", "-s", "de", "-t", "en")
    said = f"warning: the source language of {original} is en, and not de\nwarning: the target language of {original}"
    assert capsys.readouterr().err == f"{said} is de, and not en\n"


@pytest.mark.parametrize(
    ("language", "tag"),
    [("en", "eng-Latn"), ("pt_PT", "por-Latn"), ("no", "nob-Latn"), ("ko", "kor-Hang"), ("sr_Latn", ""), ("xx", "")],
)
def test_a_language_is_known_by_its_iso_name_in_its_own_script(language, tag):
    assert same_language(language, ["eng-Latn", "por-Latn", "nob-Latn", "kor-Hang", "srp-Cyrl", "<mask>"]) == tag


BLOCK = re.compile(r"```bash\n(.*?)```", re.DOTALL)


@pytest.mark.further
@pytest.mark.parametrize("name", [TAGS, NLLB])
def test_the_commands_of_the_readme_work_and_bert_fused_begins_as_the_imported_model(imported, name, bert_dir):
    original, directory, _ = imported(name)
    readme = next(directory.glob("README.*.md"))
    languages = readme.name.split(".")[1].split("-")
    (directory / "text").mkdir()
    for split, begin, end in (("train", 0, 40), ("valid", 40, 50), ("test", 50, 60)):
        for language in languages:
            (directory / "text" / f"{split}.{language}").write_text("\n".join(TEXT[begin:end]) + "\n", encoding="utf-8")
    code = "\n".join(BLOCK.findall(readme.read_text(encoding="utf-8")))
    for old, new in (
        ("3e-5", "1e-12"),
        ("--patience 5", "--max-update 2 --cpu"),
        (" > generated", " --cpu > generated"),
    ):
        assert old in code
        code = code.replace(old, new)
    generate = re.search(r"fairseq-generate .*--max-tokens 4000( --prefix-size 1)?", code)[0]
    plugin = "--user-dir bert_fused_plugin --task bert_fused_translation --cpu"
    code += f"{generate.replace('checkpoint.pt', 'fused/checkpoint_last.pt')} {plugin} > of_fused\n"
    env = {**ENVIRONMENT, "BERT": bert_dir, "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    env["PYTHONPATH"] = ":".join(path for path in sys.path if path)
    done = subprocess.run(["bash", "-ec", code], cwd=directory, env=env, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    files = [directory / "generated", directory / "of_fused"][: 1 + (name == TAGS)]
    texts = [re.findall(r"^H-(\d+)\t.*\t(.*)$", file.read_text(encoding="utf-8"), re.MULTILINE) for file in files]
    assert len(texts[0]) == 10
    assert texts[0] == texts[-1]
    assert all(text.startswith("fra_Latn ") for _, text in texts[0]) == (name == NLLB)
    if name == TAGS:  # BERT does not read the tag, and the export is what the control was
        [fused], _, task = load_model_ensemble_and_task(
            [str(directory / "fused" / "checkpoint_last.pt")], arg_overrides={"data": str(directory / "data-bin")}
        )
        tokens = task.source_dictionary.encode_line(f"{TAG} \u2581 d o g", add_if_not_exist=False)
        assert fused.encoder.source.bridge.text(tokens) == "dog"
        before, after = (load_file(path / "model.safetensors") for path in (original, directory / "exported"))
        assert {key for key in after.keys() - before.keys() if "embed_positions" not in key} == set()
        for key, value in before.items():
            assert_close(after[key], value)
