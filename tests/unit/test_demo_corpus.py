"""The demo's bilingual grammar: agreement, word order, and a corpus that is the same everywhere and split cleanly."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "demo"))

from grammar import finish
from grammar.adverbials import MODAL_VERBS
from grammar.clause import Adjunct, Clause
from grammar.clause_sampler import ClauseSampler
from grammar.dice import Dice
from grammar.german import SEIN, WERDEN, GermanVerb, decline_noun, prepositional_phrase
from grammar.lexicon import ADJECTIVES_OF, DETERMINER_OF, NOUNS, VERBS
from grammar.noun_phrase import NounPhrase
from grammar.phrase_sampler import NAME_PHRASES, PRONOUN_PHRASES
from make_corpus import main, make_pairs

PAIRS = make_pairs(6000, seed=3)
PERSONS = ("1sg", "2sg", "3sg", "1pl")


def phrase(text, plural=False, superlative=False):
    """`the old man` from the lexicon."""
    words = text.split()
    determiner, noun = words[0].replace("-", ""), NOUNS[words[-1]]
    fitting = [a for a in ADJECTIVES_OF[words[-1]] if a.english[0] in words[1:-1]]
    return NounPhrase.build(noun, determiner, plural, fitting[0] if len(words) > 2 else None, superlative)


def verb(infinitive, pattern):
    return next(v for v in VERBS[pattern] if v.english.infinitive == infinitive)


def pronoun(english):
    return next(p for p in PRONOUN_PHRASES if p.english() == english)


@pytest.mark.parametrize(
    ("text", "plural", "case", "german"),
    [
        ("the old man", False, "nom", "der alte Mann"),
        ("the old man", False, "acc", "den alten Mann"),
        ("the old man", False, "dat", "dem alten Mann"),
        ("the old man", False, "gen", "des alten Mannes"),
        ("the old man", True, "dat", "den alten Männern"),
        ("a old man", False, "nom", "ein alter Mann"),
        ("a old man", False, "acc", "einen alten Mann"),
        ("a small child", False, "nom", "ein kleines Kind"),
        ("a small child", False, "dat", "einem kleinen Kind"),
        ("my beautiful flower", False, "nom", "meine schöne Blume"),
        ("my beautiful flower", False, "dat", "meiner schönen Blume"),
        ("our new car", False, "acc", "unser neues Auto"),
        ("our new car", False, "gen", "unseres neuen Autos"),
        ("this expensive hat", False, "nom", "dieser teure Hut"),
        ("this expensive hat", False, "gen", "dieses teuren Hutes"),
        ("every high tree", False, "acc", "jeden hohen Baum"),
        ("the dark forest", False, "dat", "dem dunklen Wald"),
        ("the clever boy", False, "acc", "den klugen Jungen"),
        ("the brave soldier", False, "dat", "dem mutigen Soldaten"),
        ("three small child", True, "nom", "drei kleine Kinder"),
        ("three small child", True, "dat", "drei kleinen Kindern"),
        ("many tired teacher", True, "nom", "viele müde Lehrer"),
        ("all tired teacher", True, "nom", "alle müden Lehrer"),
        ("my good friend", True, "nom", "meine guten Freunde"),
        ("these ripe pear", True, "acc", "diese reifen Birnen"),
        ("- cold water", False, "acc", "kaltes Wasser"),
        ("- cold milk", False, "dat", "kalter Milch"),
        ("- good wine", False, "acc", "guten Wein"),
        ("Anna_'s red ball", False, "acc", "Annas roten Ball"),
    ],
)
def test_noun_phrase_agrees(text, plural, case, german):
    words = text.split(" ")
    words[0] = words[0].replace("_", " ")
    built = phrase("the " + " ".join(words[1:]), plural)
    built = NounPhrase.build(built.noun, words[0].replace("-", ""), plural, built.adjective)
    assert built.german(case) == german


def test_adjectives_are_compared():
    assert phrase("the old man", superlative=True).german("dat") == "dem ältesten Mann"
    assert phrase("the good wine", superlative=True).german("acc") == "den besten Wein"
    assert phrase("the expensive car", superlative=True).english() == "the most expensive car"
    table = {a.english[0]: a for adjectives in ADJECTIVES_OF.values() for a in adjectives}
    for english, comparative, german, superlative in [
        ("bad", "worse", "schlechter", "schlechtest"),
        ("happy", "happier", "glücklicher", "glücklichst"),
        ("dark", "darker", "dunkler", "dunkelst"),
        ("tired", "more tired", "müder", "müdest"),
        ("wide", "wider", "breiter", "breitest"),
    ]:
        assert (table[english].english[1], *table[english].german[1:]) == (comparative, german, superlative)


def test_nouns_decline():
    assert decline_noun("Apfel", "Apfels", "Äpfel", "m", "dat", True) == "Äpfeln"
    assert decline_noun("Auto", "Autos", "Autos", "n", "dat", True) == "Autos"
    assert NOUNS["story"].english_plural == "stories"
    assert NOUNS["thief"].english_plural == "thieves"


@pytest.mark.parametrize(
    ("entry", "present", "past", "participle", "zu"),
    [
        ("lesen liest las gelesen", "lese liest liest lesen", "las lasen", "gelesen", "zu lesen"),
        ("arbeiten", "arbeite arbeitest arbeitet arbeiten", "arbeitete arbeiteten", "gearbeitet", "zu arbeiten"),
        ("öffnen", "öffne öffnest öffnet öffnen", "öffnete öffneten", "geöffnet", "zu öffnen"),
        ("putzen", "putze putzt putzt putzen", "putzte putzten", "geputzt", "zu putzen"),
        ("sammeln", "sammle sammelst sammelt sammeln", "sammelte sammelten", "gesammelt", "zu sammeln"),
        ("besuchen", "besuche besuchst besucht besuchen", "besuchte besuchten", "besucht", "zu besuchen"),
        ("reparieren", "repariere reparierst repariert reparieren", "reparierte reparierten", "repariert", None),
        ("vor|bereiten", "bereite bereitest bereitet bereiten", "bereitete bereiteten", "vorbereitet", None),
        ("ein|laden lädt lud eingeladen", "lade lädst lädt laden", "lud luden", "eingeladen", "einzuladen"),
        ("halten hält hielt gehalten", "halte hältst hält halten", "hielt hielten", "gehalten", None),
        ("wissen weiß wusste gewusst", "weiß weißt weiß wissen", "wusste wussten", "gewusst", None),
        ("haben hat hatte gehabt", "habe hast hat haben", "hatte hatten", "gehabt", "zu haben"),
        ("schreien schreit schrie geschrien", "schreie schreist schreit schreien", "schrie schrien", "geschrien", None),
    ],
)
def test_verbs_conjugate(entry, present, past, participle, zu):
    german = GermanVerb.parse(entry)
    assert [german.present(person) for person in PERSONS] == present.split()
    assert [german.past(person) for person in ("3sg", "1pl")] == past.split()
    assert german.participle == participle
    assert zu is None or german.zu_infinitive == zu


def give(**options):
    options = {"indirect": phrase("the small child"), "object": phrase("a red apple"), **options}
    return Clause(phrase("the old man"), verb("give", "ditransitive"), **options)


@pytest.mark.parametrize(
    ("clause", "english", "german"),
    [
        (give(), "the old man gives the small child a red apple",
         "der alte Mann gibt dem kleinen Kind einen roten Apfel"),
        (give(tense="perfect"), "the old man has given the small child a red apple",
         "der alte Mann hat dem kleinen Kind einen roten Apfel gegeben"),
        (give(negated=True), "the old man does not give the small child a red apple",
         "der alte Mann gibt dem kleinen Kind keinen roten Apfel"),
        (give(tense="past", negated=True, object=phrase("the red apple")),
         "the old man did not give the small child the red apple",
         "der alte Mann gab dem kleinen Kind den roten Apfel nicht"),
        (give(tense="future", indirect=pronoun("she"), time=Adjunct("tomorrow", "morgen")),
         "the old man will give her a red apple tomorrow",
         "der alte Mann wird ihr morgen einen roten Apfel geben"),
        (give(progressive=True, object=phrase("- cold milk")), "the old man is giving the small child cold milk",
         "der alte Mann gibt dem kleinen Kind kalte Milch"),
        (Clause(pronoun("you"), verb("read", "transitive"), object=phrase("my new book"), progressive=True),
         "you are reading my new book", "du liest mein neues Buch"),
        (Clause(pronoun("we"), verb("wait for", "prepositional"), object=phrase("the train"), negated=True),
         "we do not wait for the train", "wir warten nicht auf den Zug"),
        (Clause(pronoun("they"), verb("help", "dative"), tense="past", object=pronoun("I")),
         "they helped me", "sie halfen mir"),
        (Clause(pronoun("he"), verb("call", "transitive"), object=pronoun("she"), time=Adjunct("today", "heute")),
         "he calls her today", "er ruft sie heute an"),
        (Clause(phrase("the train"), verb("arrive", "intransitive"), tense="perfect"),
         "the train has arrived", "der Zug ist angekommen"),
    ],
)  # fmt: skip
def test_clause_in_both_languages(clause, english, german):
    assert (clause.english(), clause.german_statement()) == (english, german)


def test_word_orders():
    clause = Clause(phrase("the father"), verb("call", "transitive"), object=phrase("my sister"), modal=MODAL_VERBS[0])
    assert clause.english(question=True) == "does the father call my sister"
    assert clause.german_question() == "ruft der Vater meine Schwester an"
    assert clause.german_statement("heute") == "heute ruft der Vater meine Schwester an"
    assert clause.german_subordinate("weil") == "weil der Vater meine Schwester anruft"
    assert clause.german_infinitive() == "meine Schwester anzurufen"
    for tense, ending in [("perfect", "angerufen hat"), ("future", "anrufen wird"), ("modal", "anrufen kann")]:
        other = Clause(clause.subject, clause.verb, tense, object=clause.object, modal=clause.modal)
        assert other.german_subordinate("dass") == f"dass der Vater meine Schwester {ending}"
    joined = [prepositional_phrase(*pair) for pair in (("in", "dem Haus"), ("in", "der Stadt"), ("zu", "der Brücke"))]
    assert joined == ["im Haus", "in der Stadt", "zur Brücke"]
    assert finish("der Mann , der singt , .") == "Der Mann , der singt ."


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
