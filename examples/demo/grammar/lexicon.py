"""The words of the lexicon with their forms, read from its tables; every cross-reference is checked."""

from dataclasses import dataclass
from typing import Dict, List, Tuple

from grammar import english
from grammar.english import EnglishVerb
from grammar.german import GermanVerb, adjective_stem, decline_noun, superlative_stem
from grammar.lexicon_adjectives import ADJECTIVES
from grammar.lexicon_adverbials import DETERMINERS, MANNERS
from grammar.lexicon_nouns import NOUN_TABLES, PLACE_PREPOSITIONS
from grammar.lexicon_verbs import VERB_TABLES

# These are groups of noun classes; `name` and `pronoun` stand for proper names and pronouns.
GROUPS: Dict[str, Tuple[str, ...]] = {
    "person": ("adult", "kid", "elder", "relative", "name", "pronoun"),
    "female": ("woman", "girl", "mother", "aunt", "grandmother", "sister", "daughter", "princess", "singer", "dancer"),
    "grown": ("adult", "elder", "relative", "name", "pronoun"),
}


@dataclass(frozen=True)
class Noun:
    """A noun in both languages, whose `kind` is its semantic class."""

    english: str
    english_plural: str
    german_singular: str
    german_plural: str
    genitive: str
    gender: str
    kind: str

    @property
    def is_mass(self) -> bool:
        """Return whether the noun takes no indefinite article, as bread and rain."""
        return self.kind in ("food", "drink", "state", "weather")

    def german(self, case: str, plural: bool) -> str:
        """Return the German form of a case and number."""
        return decline_noun(self.german_singular, self.genitive, self.german_plural, self.gender, case, plural)


@dataclass(frozen=True)
class Adjective:
    """An adjective with its comparative and superlative; the German forms have no endings."""

    english: Tuple[str, str, str]
    german: Tuple[str, str, str]
    gradable: bool


@dataclass(frozen=True)
class Determiner:
    """An English determiner and its German stem, whose endings depend on `kind`."""

    english: str
    stem: str
    kind: str


@dataclass(frozen=True)
class Verb:
    """A verb in both languages, with the pattern of its complements and the words that it goes with."""

    english: EnglishVerb
    german: GermanVerb
    pattern: str
    preposition: str
    case: str
    subjects: Tuple[str, ...]
    objects: Tuple[str, ...]
    extras: Tuple[str, ...]


def rows(table: str) -> List[List[str]]:
    """Return the fields of each line of a table, which are separated by `;`."""
    lines = [line.strip() for line in table.strip().splitlines()]
    return [[field.strip() for field in line.split(";")] for line in lines]


def _read_nouns() -> Dict[str, Noun]:
    nouns: Dict[str, Noun] = {}
    for kind, table in NOUN_TABLES.items():
        for row in rows(table):
            fields = row[0].split()
            name, singular, gender, plural, genitive = fields[:5]
            if name in nouns:
                raise ValueError(f"The noun {name!r} stands twice in the lexicon; remove one of its lines.")
            english_plural = fields[5] if len(fields) > 5 else english.plural(name)
            plural = "" if plural == "-" else plural
            genitive = singular if genitive == "-" else genitive
            if name in NOUN_TABLES:
                raise ValueError(f"The lexicon uses {name!r} as a noun and as a class of nouns; rename the class.")
            nouns[name] = Noun(name, english_plural, singular, plural, genitive, gender, kind)
    return nouns


def _read_adjectives(nouns: Dict[str, Noun]) -> Dict[str, List[Adjective]]:
    """Return the adjectives that go with each noun."""
    table: Dict[str, List[Adjective]] = {name: [] for name in nouns}
    for english_field, german_field, domain in rows(ADJECTIVES):
        forms = english_field.rstrip("+!").split()
        if len(forms) == 1:
            forms += english.compare(forms[0], english_field.endswith("+"))
        german = german_field.split()
        if len(german) == 1:
            german += [adjective_stem(german[0]) + "er", superlative_stem(german[0])]
        gradable = not english_field.endswith("!")
        adjective = Adjective((forms[0], forms[1], forms[2]), (german[0], german[1], german[2]), gradable)
        for name in expand(domain.split(), nouns):
            table[name].append(adjective)
    return table


def expand(words: List[str], nouns: Dict[str, Noun]) -> List[str]:
    """Return the nouns that classes and single words name; `class-noun` is the class without the noun."""
    found: Dict[str, None] = {}
    for word in words:
        head, *without = word.split("-")
        members = [head] if head in nouns else [name for name, noun in nouns.items() if noun.kind == head]
        unknown = [name for name in without if name not in nouns]
        if not members or unknown:
            raise ValueError(f"The lexicon has no noun or class {word!r}; add it, or correct the line that names it.")
        found.update((name, None) for name in members if name not in without)
    return list(found)


def _read_verbs(nouns: Dict[str, Noun]) -> Dict[str, List[Verb]]:
    table: Dict[str, List[Verb]] = {}
    for pattern, text in VERB_TABLES.items():
        for row in rows(text):
            fields = row + [""] * (5 - len(row))
            words = fields[1].split()
            preposition, _, case = words[-1].partition("+")
            german = GermanVerb.parse(" ".join(words[:-1] if case else words))
            subjects, objects = (_members(field, nouns) for field in fields[2:4])
            verb = Verb(EnglishVerb.parse(fields[0]), german, pattern, preposition if case else "", case, subjects,
                        objects, tuple(fields[4].split()))  # fmt: skip
            table.setdefault(pattern, []).append(verb)
    return table


def _members(field: str, nouns: Dict[str, Noun]) -> Tuple[str, ...]:
    """Return the nouns of a verb's field; `name` and `pronoun` stay as they are."""
    words = [member for word in field.split() for member in GROUPS.get(word, (word,))]
    special = [word for word in words if word in ("name", "pronoun")]
    return tuple(expand([word for word in words if word not in special], nouns) + special)


NOUNS = _read_nouns()
ADJECTIVES_OF = _read_adjectives(NOUNS)
VERBS = _read_verbs(NOUNS)
DETERMINER_OF = {row[0]: Determiner(row[0], row[1], row[2]) for row in rows(DETERMINERS)}
MANNER_OF = {row[0]: row[1] for row in rows(MANNERS)}
PLACES = [tuple(entry.split()) for entry in PLACE_PREPOSITIONS.replace("\n", "|").split("|") if entry.strip()]
