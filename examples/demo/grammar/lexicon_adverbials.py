"""The names, function words and adverbials, written by hand.  The fields of a line are separated by `;`."""

NAMES = {"f": "Anna Maria Julia Laura Sarah Eva Lisa Nina", "m": "Peter David Martin Paul Daniel Jan Simon Robert"}

# Fields: English subject and object form; German nominative, accusative, dative; agreement; gender; possessive.
PRONOUNS = """
    I me; ich mich mir; 1sg; ; my
    you you; du dich dir; 2sg; ; your
    he him; er ihn ihm; 3sg; m; his
    she her; sie sie ihr; 3sg; f; her
    we us; wir uns uns; 1pl; ; our
    they them; sie sie ihnen; 3pl; ; their
"""

# Fields: English; German stem; kind of German inflection (the, dies, ein, fixed or viel).
DETERMINERS = """
    the; d; the
    this; dies; dies
    these; dies; dies
    every; jed; dies
    which; welch; dies
    all; all; dies
    a; ein; ein
    my; mein; ein
    your; dein; ein
    his; sein; ein
    her; ihr; ein
    our; unser; ein
    their; ihr; ein
    many; viel; viel
    some; einig; viel
    two; zwei; fixed
    three; drei; fixed
    four; vier; fixed
    five; fünf; fixed
    six; sechs; fixed
    seven; sieben; fixed
    eight; acht; fixed
    nine; neun; fixed
    ten; zehn; fixed
"""
NUMBERS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")

# Fields: English; German; tenses; the English present that it needs (progressive, or habit for the simple one).
TIMES = """
    now; jetzt; present; progressive
    at the moment; im Moment; present; progressive
    today; heute; present past perfect future modal; progressive
    every day; jeden Tag; present past modal; habit
    every week; jede Woche; present past; habit
    every year; jedes Jahr; present past; habit
    every evening; jeden Abend; present past modal; habit
    every morning; jeden Morgen; present past modal; habit
    in the morning; am Morgen; present past future; habit
    in the afternoon; am Nachmittag; past future modal; habit
    in the evening; am Abend; present past future modal; habit
    in summer; im Sommer; present past future; habit
    in winter; im Winter; present past future; habit
    in spring; im Frühling; past future; habit
    in autumn; im Herbst; past future; habit
    yesterday; gestern; past;
    last night; letzte Nacht; past;
    last week; letzte Woche; past;
    last month; letzten Monat; past;
    last year; letztes Jahr; past;
    this morning; heute Morgen; past;
    this week; diese Woche; perfect future;
    this evening; heute Abend; future modal;
    tomorrow; morgen; future modal;
    next week; nächste Woche; future modal;
    next month; nächsten Monat; future;
    next year; nächstes Jahr; future;
    soon; bald; future modal;
    after the meal; nach dem Essen; past future;
    before the meal; vor dem Essen; past future;
    after work; nach der Arbeit; past future;
    because of the rain; wegen des Regens; past perfect;
    because of the snow; wegen des Schnees; past perfect;
    because of the storm; wegen des Sturmes; past perfect;
    despite the rain; trotz des Regens; present past perfect; progressive
    despite the snow; trotz des Schnees; present past perfect; progressive
    despite the wind; trotz des Windes; present past perfect; progressive
"""
WEEKDAYS = "Monday Montag | Tuesday Dienstag | Wednesday Mittwoch | Thursday Donnerstag | Friday Freitag | \
Saturday Samstag | Sunday Sonntag"
MONTHS = "January Januar | March März | April April | May Mai | June Juni | July Juli | August August | \
September September | October Oktober | December Dezember"
# Units that follow a number, as in `two days ago`; each entry is an English plural and a German dative plural.
UNITS = "days Tagen | weeks Wochen | months Monaten | years Jahren"

# Adverbs that precede the English verb.  Fields: English; German; tenses; progressive or habit.
MID_ADVERBS = """
    always; immer; present past; habit
    often; oft; present past perfect; habit
    sometimes; manchmal; present past; habit
    rarely; selten; present past; habit
    never; nie; present past perfect; habit
    already; schon; perfect;
    still; noch; present; progressive
    probably; wahrscheinlich; future;
"""

# Adverbs that only begin a sentence.  Fields: English; German; tenses.
SENTENCE_ADVERBS = """
    perhaps; vielleicht; present past future
    unfortunately ,; leider; present past perfect future modal
    fortunately ,; zum Glück; present past perfect future
    of course ,; natürlich; present future modal
    suddenly; plötzlich; past
    then; dann; past
"""

MANNERS = """
    slowly; langsam
    quickly; schnell
    loudly; laut
    quietly; leise
    carefully; vorsichtig
    well; gut
    alone; allein
    together; zusammen
"""

# Fields: English; its auxiliary; the words behind that; German 1sg, 2sg, 3sg, plural; `n` if it may be negated.
# Where the auxiliary is do or did, a plain statement has the finite form of the first field instead.
MODALS = """
    can; can; ; kann kannst kann können; n
    must; must; ; muss musst muss müssen;
    may; may; ; darf darfst darf dürfen;
    should; should; ; sollte solltest sollte sollten; n
    want to; do; want to; will willst will wollen; n
    would like to; would; like to; möchte möchtest möchte möchten;
    could; could; ; konnte konntest konnte konnten; n
    had to; did; have to; musste musstest musste mussten;
    wanted to; did; want to; wollte wolltest wollte wollten; n
"""

TOWNS = "Berlin Berlin | Hamburg Hamburg | Munich München | Vienna Wien | Cologne Köln | Paris Paris | London London | \
Rome Rom | Germany Deutschland | France Frankreich | Italy Italien | Spain Spanien | Austria Österreich | Poland Polen"

# Two-way prepositions.  Fields: English; German; nouns of places to lie or sit at; nouns of places to stand at.
TWO_WAY = """
    on; auf; table chair bed sofa; table piano
    under; unter; table chair bed sofa tree; table bed tree
    behind; hinter; door sofa tree; door sofa tree
    next to; neben; bed sofa door tree clock; bed table sofa door window tree
    in front of; vor; door bed window; door window mirror
    in; in; drawer bag suitcase box basket; cupboard box
"""

# Predicates of `it` and `es`.  Fields: English; German with the finite verb first; tense.
WEATHER = """
    is raining; regnet; present
    is snowing; schneit; present
    is cold; ist kalt; present
    is warm; ist warm; present
    is late; ist spät; present
    is dark; ist dunkel; present
    rained; regnete; past
    snowed; schneite; past
    was cold; war kalt; past
    was warm; war warm; past
    was late; war spät; past
    was dark; war dunkel; past
"""
