"""English inflection: plurals, articles, comparison and verb forms."""

from dataclasses import dataclass
from typing import Tuple

VOWELS = "aeiou"
CONSONANT_SOUND = ("uni", "use", "eu")
VOWEL_SOUND = ("honest", "hour")
# These verbs double their last letter before -ing and -ed.
DOUBLING = (
    *("run", "swim", "sit", "get", "put", "cut", "win", "forget", "travel"),
    *("stop", "hug", "plan", "begin"),
)
BE = {
    "present": {"1sg": "am", "2sg": "are", "3sg": "is", "1pl": "are", "3pl": "are"},
    "past": {"1sg": "was", "2sg": "were", "3sg": "was", "1pl": "were", "3pl": "were"},
}


def article(word: str) -> str:
    """Return the article before a word, `a` or `an`."""
    vowel = word.startswith(VOWEL_SOUND) or (word[0] in VOWELS and not word.startswith(CONSONANT_SOUND))
    return "an" if vowel else "a"


def plural(noun: str) -> str:
    """Return the regular plural."""
    if noun.endswith("y") and noun[-2] not in VOWELS:
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(("s", "x", "ch", "sh", "z")) else "s")


def compare(adjective: str, long: bool) -> Tuple[str, str]:
    """Return the regular comparative and superlative."""
    if long:
        return f"more {adjective}", f"most {adjective}"
    if adjective.endswith("y"):
        adjective = adjective[:-1] + "i"
    adjective = adjective[:-1] if adjective.endswith("e") else adjective
    return adjective + "er", adjective + "est"


@dataclass(frozen=True)
class EnglishVerb:
    """A verb, with the particle or preposition behind it if it has one (`look for`)."""

    base: str
    past_form: str
    participle: str
    tail: str = ""
    stative: bool = False

    @staticmethod
    def parse(text: str) -> "EnglishVerb":
        """Return the verb of the field `infinitive[*] [past participle]` of the lexicon."""
        words = text.split()
        stative = words[0].endswith("*")
        heads, tails = zip(*[word.rstrip("*").partition("_")[::2] for word in words])
        base, tail = heads[0], tails[0].replace("_", " ")
        if len(heads) == 1:
            heads = (base, _regular_past(base), _regular_past(base))
        if len(heads) != 3:
            raise ValueError(f"An English verb needs the infinitive alone or three forms, got {text!r}.")
        return EnglishVerb(heads[0], heads[1], heads[2], tail, stative)

    @property
    def ambiguous_past(self) -> bool:
        """Return whether present and past differ in the third person singular only, as those of `put`."""
        return self.base == self.past_form

    @property
    def infinitive(self) -> str:
        """Return the infinitive: look for."""
        return self._with_tail(self.base)

    @property
    def progressive(self) -> str:
        """Return the present participle: looking for."""
        stem = self.base
        if stem in DOUBLING:
            stem += stem[-1]
        elif stem.endswith("ie"):
            stem = stem[:-2] + "y"
        elif stem.endswith("e") and not stem.endswith("ee"):
            stem = stem[:-1]
        return self._with_tail(stem + "ing")

    @property
    def past(self) -> str:
        """Return the past: looked for."""
        return self._with_tail(self.past_form)

    @property
    def perfect(self) -> str:
        """Return the past participle: looked for."""
        return self._with_tail(self.participle)

    def present(self, agreement: str) -> str:
        """Return the form of the present: look for, looks for."""
        if agreement != "3sg":
            return self.infinitive
        if self.base in ("have", "go"):
            return self._with_tail({"have": "has", "go": "goes"}[self.base])
        return self._with_tail(plural(self.base))

    def _with_tail(self, head: str) -> str:
        return f"{head} {self.tail}" if self.tail else head


def _regular_past(base: str) -> str:
    if base in DOUBLING:
        return base + base[-1] + "ed"
    if base.endswith("y") and base[-2] not in VOWELS:
        return base[:-1] + "ied"
    return base + ("d" if base.endswith("e") else "ed")
