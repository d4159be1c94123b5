"""German inflection: the forms of nouns, adjectives, determiners and verbs, and prepositional phrases.

Cases are `nom`, `acc`, `dat`, `gen`; genders are `m`, `f`, `n`; agreement is `1sg`, `2sg`, `3sg`, `1pl`, `3pl`.
"""

from dataclasses import dataclass
from typing import Dict, Tuple

CASES = ("nom", "acc", "dat", "gen")
# A paradigm has a row for each case, and a column each for m, f, n and the plural.
Paradigm = Dict[str, Tuple[str, str, str, str]]

DEFINITE: Paradigm = {
    "nom": ("er", "ie", "as", "ie"),
    "acc": ("en", "ie", "as", "ie"),
    "dat": ("em", "er", "em", "en"),
    "gen": ("es", "er", "es", "er"),
}
STRONG: Paradigm = {
    "nom": ("er", "e", "es", "e"),
    "acc": ("en", "e", "es", "e"),
    "dat": ("em", "er", "em", "en"),
    "gen": ("en", "er", "en", "er"),
}
WEAK: Paradigm = {
    "nom": ("e", "e", "e", "en"),
    "acc": ("en", "e", "e", "en"),
    "dat": ("en", "en", "en", "en"),
    "gen": ("en", "en", "en", "en"),
}
MIXED: Paradigm = {
    "nom": ("er", "e", "es", "en"),
    "acc": ("en", "e", "es", "en"),
    "dat": ("en", "en", "en", "en"),
    "gen": ("en", "en", "en", "en"),
}
CONTRACTIONS = {
    "in dem": "im",
    "in das": "ins",
    "an dem": "am",
    "an das": "ans",
    "zu dem": "zum",
    "zu der": "zur",
    "bei dem": "beim",
    "von dem": "vom",
}
RELATIVE_PRONOUN: Paradigm = {
    "nom": ("der", "die", "das", "die"),
    "acc": ("den", "die", "das", "die"),
    "dat": ("dem", "der", "dem", "denen"),
    "gen": ("dessen", "deren", "dessen", "deren"),
}
SEIN = {
    "present": {"1sg": "bin", "2sg": "bist", "3sg": "ist", "1pl": "sind", "3pl": "sind"},
    "past": {"1sg": "war", "2sg": "warst", "3sg": "war", "1pl": "waren", "3pl": "waren"},
}
WERDEN = {"1sg": "werde", "2sg": "wirst", "3sg": "wird", "1pl": "werden", "3pl": "werden"}
INSEPARABLE = ("be", "emp", "ent", "er", "ge", "ver", "zer", "über")


def column(gender: str, plural: bool) -> int:
    """Return the index of a paradigm's column."""
    return 3 if plural else "mfn".index(gender)


def determiner(stem: str, kind: str, case: str, gender: str, plural: bool) -> str:
    """Return an article, possessive, demonstrative or number with its ending; `kind` is that of `DETERMINERS`."""
    if kind == "fixed":
        return stem
    col = column(gender, plural)
    if kind == "the":
        return stem + DEFINITE[case][col]
    if kind == "ein" and (col, case) in ((0, "nom"), (2, "nom"), (2, "acc")):
        return stem
    if case == "gen" and col in (0, 2):
        return stem + "es"
    return stem + STRONG[case][col]


def adjective_ending(kind: str, case: str, gender: str, plural: bool) -> str:
    """Return the ending of an adjective after a determiner of the given kind; the empty kind is no determiner."""
    paradigm = {"the": WEAK, "dies": WEAK, "ein": MIXED}.get(kind, STRONG)
    return paradigm[case][column(gender, plural)]


def adjective_stem(word: str) -> str:
    """Return the form that takes endings: müde -> müd, teuer -> teur, dunkel -> dunkl, hoch -> hoh."""
    if word == "hoch":
        return "hoh"
    if word.endswith("e"):
        return word[:-1]
    if word.endswith(("auer", "euer", "el")):
        return word[:-2] + word[-1]
    return word


def superlative_stem(word: str) -> str:
    """Return the regular superlative without ending: klein -> kleinst, leicht -> leichtest."""
    stem = word.rstrip("e")
    needs_e = stem.endswith(("d", "t", "s", "ß", "z", "sch")) and not stem.endswith("end")
    return stem + ("est" if needs_e else "st")


def decline_noun(nominative: str, genitive: str, plural_form: str, gender: str, case: str, plural: bool) -> str:
    """Return a noun in its case; masculine nouns whose genitive has no -s are weak (der Junge, den Jungen)."""
    if plural:
        return plural_form + ("n" if case == "dat" and not plural_form.endswith(("n", "s")) else "")
    if case == "gen" or (gender == "m" and case != "nom" and not genitive.endswith("s")):
        return genitive
    return nominative


def prepositional_phrase(preposition: str, phrase: str) -> str:
    """Return a preposition and a phrase in its case, contracted as German does it (in dem -> im)."""
    first, _, rest = phrase.partition(" ")
    joined = CONTRACTIONS.get(f"{preposition} {first}") if rest else None
    return f"{joined} {rest}" if joined else f"{preposition} {phrase}"


@dataclass(frozen=True)
class GermanVerb:
    """A verb with its principal parts; `third` and `preterite` do not include the separable `prefix`."""

    base: str
    third: str
    preterite: str
    participle: str
    prefix: str = ""
    auxiliary: str = "haben"

    @staticmethod
    def parse(text: str) -> "GermanVerb":
        """Return the verb of the field `infinitive [third preterite] [ist] [participle]` of the lexicon."""
        words = text.split()
        prefix, _, base = words[0].rpartition("|")
        auxiliary = "sein" if "ist" in words else "haben"
        parts = [word for word in words[1:] if word != "ist"]
        if not parts:
            stem = base[:-1] if base.endswith(("ern", "eln")) else base[:-2]
            linked = stem + ("e" if stem.endswith(("t", "d", "ffn", "chn")) else "")
            ge = "" if stem.startswith(INSEPARABLE) or stem.endswith("ier") else "ge"
            parts = [linked + "t", linked + "te", prefix + ge + linked + "t"]
        if len(parts) != 3:
            raise ValueError(f"A German verb needs the infinitive alone or four forms, got {text!r}.")
        return GermanVerb(base, parts[0], parts[1], parts[2], prefix, auxiliary)

    @property
    def infinitive(self) -> str:
        """Return the infinitive: lesen, aufstehen."""
        return self.prefix + self.base

    @property
    def zu_infinitive(self) -> str:
        """Return the infinitive with zu: zu lesen, aufzustehen."""
        return f"{self.prefix}zu{self.base}" if self.prefix else f"zu {self.base}"

    def present(self, agreement: str) -> str:
        """Return the form of the present, without the separable prefix."""
        if agreement in ("1pl", "3pl"):
            return self.base
        if agreement == "3sg":
            return self.third
        irregular = not self.third.endswith("t")
        if agreement == "1sg":
            return self.third if irregular else self._first_person()
        return self._second_person(self.third if irregular else self.third[:-1])

    def past(self, agreement: str) -> str:
        """Return the form of the preterite, without the separable prefix; there is none for the second person."""
        if agreement == "2sg":
            raise ValueError(f"The demo has no second person of the preterite of {self.infinitive}; use the perfect.")
        if agreement in ("1sg", "3sg"):
            return self.preterite
        return self.preterite + ("n" if self.preterite.endswith("e") else "en")

    def _first_person(self) -> str:
        """Return the first person of a verb with a regular present: lese, sammle, bewundere."""
        if self.base.endswith("eln"):
            return self.base[:-3] + "le"
        return self.base[:-1] + ("e" if self.base.endswith("ern") else "")

    def _second_person(self, stem: str) -> str:
        """Return the second person: liest, isst, arbeitest, hältst."""
        if stem.endswith(("s", "ß", "z", "x")):
            return stem + "t"
        base_stem = self.base[:-2]
        if base_stem.endswith("t") and not self.third.endswith("et"):
            return self.third + "st"
        return stem + "st"
