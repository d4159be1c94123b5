"""The demo's corpus keeps the rules of its grammar, is the same everywhere and is split cleanly."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "demo"))

from grammar.adverbials import MODAL_VERBS
from grammar.clause_sampler import ClauseSampler
from grammar.dice import Dice
from grammar.german import SEIN, WERDEN
from grammar.lexicon import DETERMINER_OF, VERBS
from grammar.phrase_sampler import NAME_PHRASES, PRONOUN_PHRASES
from make_corpus import main, make_pairs

PAIRS = make_pairs(6000, seed=3)
PERSONS = ("1sg", "2sg", "3sg", "1pl")


def finite_forms():
    """Every finite German form, from the lexicon's principal parts, and the same with the prefix joined."""
    free, joined = set(), set()
    for verbs in VERBS.values():
        for german in (v.german for v in verbs):
            forms = {german.present(p) for p in PERSONS} | {german.past(p) for p in ("3sg", "1pl")}
            free |= forms
            joined |= {german.prefix + form for form in forms}
    auxiliaries = {"habe", "hast", "hat", "haben"} | set(WERDEN.values())
    auxiliaries |= {form for tense in SEIN.values() for form in tense.values()}
    auxiliaries |= {form for modal in MODAL_VERBS for form in modal.german}
    auxiliaries |= {"regnet", "schneit", "regnete", "schneite"}
    return free | auxiliaries, joined | auxiliaries


FINITE, FINITE_JOINED = finite_forms()
FRONTED = ("Gestern", "Morgen", "Jetzt", "Vielleicht", "Leider", "Dann", "Plötzlich", "Natürlich", "Bald")


def test_verb_second():
    """After a fronted word comes the finite verb; after a fronted clause and its comma, too."""
    heads = [german.split()[1] for _, german in PAIRS if german.split()[0] in FRONTED]
    assert len(heads) > 100
    assert [head for head in heads if head not in FINITE] == []
    conjunctions = ("Weil", "Obwohl", "Wenn", "Als", "Während")
    after = [g.rpartition(" , ")[2].split()[0] for _, g in PAIRS if g.startswith(conjunctions) and g.count(",") == 1]
    assert len(after) > 100
    assert [word for word in after if word not in FINITE] == []


def test_questions_begin_with_the_verb():
    auxiliaries = ("Does", "Do", "Did", "Has", "Have", "Is", "Are", "Was", "Were", "Will", "Can", "Must", "Would")
    heads = [g.split()[0] for e, g in PAIRS if e.endswith("?") and e.split()[0] in auxiliaries]
    assert len(heads) > 200
    assert [head for head in heads if head.lower() not in FINITE] == []


def test_subordinate_clauses_end_with_the_verb():
    ends = []
    for _, german in PAIRS:
        for conjunction in ("weil", "obwohl", "dass", "ob", "bevor", "bis"):
            _, found, rest = german.partition(f" , {conjunction} ")
            if found and rest.count(",") == 0:
                ends.append(rest.split()[-2])
    assert len(ends) > 300
    assert [end for end in ends if end not in FINITE_JOINED] == []


def test_prepositions_govern_their_case():
    datives = {p.german("dat") for p in PRONOUN_PHRASES + NAME_PHRASES}
    datives |= {d.stem for d in DETERMINER_OF.values() if d.kind == "fixed"}
    tails = ("em", "er", "en")
    wrong = []
    for _, german in PAIRS:
        words = german.split()
        for preposition, following in zip(words, words[1:]):
            if (
                preposition == "mit"
                and following not in (*datives, ".", "?", ",", "und")
                and not following.endswith(tails)
            ):
                wrong.append(german)
            if preposition == "für" and following.endswith("em"):
                wrong.append(german)
    assert wrong == []


def test_one_source_has_one_target():
    """The mapping can be learned: no English sentence is drawn with two German ones."""
    sampler, targets, repeated = ClauseSampler(Dice(11)), {}, 0
    for pattern in ("intransitive", "motion", "travel", "stay", "transitive", "dative", "position"):
        for _ in range(2500):
            clause = sampler.clause(patterns={pattern: 1}, adverbials=0.3)
            english, german = clause.english(), clause.german_statement()
            repeated += english in targets
            assert targets.setdefault(english, german) == german
    assert repeated > 300


def test_no_unfit_tense_is_drawn():
    """`You read` and `they put` may be present or past in English: the corpus has neither in a simple tense."""
    sampler = ClauseSampler(Dice(2))
    for _ in range(3000):
        clause = sampler.clause()
        simple = clause.tense in ("present", "past") and not clause.progressive and not clause.negated
        assert not (simple and clause.verb.english.ambiguous_past and clause.subject.agreement != "3sg")


def read(folder, name):
    return (folder / name).read_text(encoding="utf-8").splitlines()


def test_splits(tmp_path, capsys):
    main([str(tmp_path / "a"), "--train", "3000", "--valid", "150", "--test", "120"])
    assert "train: 3000 pairs" in capsys.readouterr().out
    for language in ("en", "de"):
        splits = {name: read(tmp_path / "a", f"{name}.{language}") for name in ("train", "valid", "test")}
        assert {name: len(lines) for name, lines in splits.items()} == {"train": 3000, "valid": 150, "test": 120}
        lines = [line for split in splits.values() for line in split]
        assert len(set(lines)) == len(lines)
        assert all(line == " ".join(line.split()) and line[0].isupper() and line[-1] in ".?" for line in lines)
        assert 7 < sum(len(line.split()) for line in lines) / len(lines) < 10


def test_dice_fall_the_same_on_every_python():
    dice = Dice(1)
    assert [dice.pick(range(100)) for _ in range(8)] == [13, 84, 76, 25, 49, 44, 65, 78]
    assert "".join(dice.weighted({"a": 1, "b": 2.5, "c": 0.3}) for _ in range(8)) == "aabbbabb"


def test_same_seed_same_corpus(tmp_path):
    for folder, seed in [("a", "1"), ("b", "1"), ("c", "2")]:
        main([str(tmp_path / folder), "--train", "200", "--valid", "20", "--test", "20", "--seed", seed])
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert len(names) == 6
    assert all(read(tmp_path / "a", name) == read(tmp_path / "b", name) for name in names)
    assert read(tmp_path / "a", "train.de") != read(tmp_path / "c", "train.de")
