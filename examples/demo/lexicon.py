"""The words of the demo's grammar.

Some English words stand twice, and the context decides how they are translated: an animal eats (frisst) as a
person does (isst), and a light room (hell) is not a light coat (leicht).  `_` stands for a space inside a word.
"""

# English, with an irregular plural after `/`; German, with `*` if it is weak (den Jungen); gender; German plural.
NOUNS = {
    "person": """
        man/men Mann m Männer, woman/women Frau f Frauen, child/children Kind n Kinder, boy Junge* m Jungen,
        girl Mädchen n Mädchen, teacher Lehrer m Lehrer, doctor Arzt m Ärzte, neighbour Nachbar* m Nachbarn,
        student Student* m Studenten, farmer Bauer* m Bauern, singer Sängerin f Sängerinnen, king König m Könige,
        queen Königin f Königinnen, friend Freund m Freunde, policeman/policemen Polizist* m Polizisten,
        brother Bruder m Brüder, sister Schwester f Schwestern, son Sohn m Söhne, daughter Tochter f Töchter""",
    "animal": """
        dog Hund m Hunde, cat Katze f Katzen, horse Pferd n Pferde, cow Kuh f Kühe, mouse/mice Maus f Mäuse,
        wolf/wolves Wolf m Wölfe, bear Bär* m Bären""",
    "flyer": "bird Vogel m Vögel, bat Fledermaus f Fledermäuse",
    "food": """
        apple Apfel m Äpfel, pear Birne f Birnen, cake Kuchen m Kuchen, tomato/tomatoes Tomate f Tomaten,
        egg Ei n Eier, sausage Wurst f Würste""",
    "drink": "water Wasser n -, milk Milch f -, coffee Kaffee m -, tea Tee m -, wine Wein m -",
    "text": """
        book Buch n Bücher, letter Brief m Briefe, newspaper Zeitung f Zeitungen, story Geschichte f Geschichten,
        poem Gedicht n Gedichte""",
    "clothing": """
        coat Mantel m Mäntel, hat Hut m Hüte, dress Kleid n Kleider, shirt Hemd n Hemden, jacket Jacke f Jacken,
        scarf/scarves Schal m Schals""",
    "tool": """
        key Schlüssel m Schlüssel, knife/knives Messer n Messer, pencil Bleistift m Bleistifte, picture Bild n Bilder,
        ticket Fahrkarte f Fahrkarten""",
    "vessel": """
        bottle Flasche f Flaschen, cup Tasse f Tassen, vase Vase f Vasen, glass Glas n Gläser,
        suitcase Koffer m Koffer""",
    "vehicle": "car Auto n Autos, bicycle Fahrrad n Fahrräder",
    "transport": "train Zug m Züge, bus Bus m Busse, ship Schiff n Schiffe",
    "toy": "bat Schläger m Schläger, guitar Gitarre f Gitarren, ball Ball m Bälle",
    "contest": "match Spiel n Spiele, race Rennen n Rennen",
    "opening": "door Tür f Türen, window Fenster n Fenster",
    "room": """
        kitchen Küche f Küchen, garden Garten m Gärten, school Schule f Schulen, church Kirche f Kirchen,
        park Park m Parks, city Stadt f Städte, forest Wald m Wälder, office Büro n Büros, village Dorf n Dörfer,
        bank Bank f Banken""",
    "stop": """
        station Bahnhof m Bahnhöfe, lake See m Seen, beach Strand m Strände, bank_of_the_river Ufer_des_Flusses n -""",
}
# English; German; the classes of nouns, or single German nouns, that the adjective goes with.
ADJECTIVES = """
    old; alt; person animal clothing vehicle text vessel
    young; jung; person animal
    small; klein; person animal food tool vessel vehicle room opening
    big; groß; animal food vessel transport room
    tired; müde; person animal
    hungry; hungrig; person animal flyer
    fast; schnell; vehicle transport Hund Pferd
    black; schwarz; animal flyer clothing vehicle
    red; rot; clothing vehicle transport Apfel Tomate Ball Vase Tür Bleistift
    blue; blau; clothing vehicle transport Vase Tür Tasse Bleistift
    fresh; frisch; food Wasser Milch
    cold; kalt; drink
    hot; heiß; Wasser Milch Kaffee Tee
    good; gut; text drink contest Arzt Lehrer Freund
    new; neu; clothing text tool toy vessel vehicle transport opening
    expensive; teuer; clothing vehicle toy Wein
    beautiful; schön; clothing toy text Garten Park Stadt Dorf See Strand
    heavy; schwer; vessel toy
    light; leicht; vessel clothing
    light; hell; Küche Büro Kirche Schule
    dark; dunkel; Küche Wald Kirche
    empty; leer; vessel
    quiet; ruhig; room stop
    long; lang; text contest
    interesting; interessant; text contest
"""

# English forms; German infinitive, with the separable prefix before `|`, third person, preterite, [ist] participle
# [preposition+case]; classes of subjects; classes of objects.  The kinds tell what else a clause has.
VERBS = {
    "plain": """
        sleep slept slept; schlafen schläft schlief geschlafen; person animal flyer;
        laugh laughed laughed; lachen lacht lachte gelacht; person;
        work worked worked; arbeiten arbeitet arbeitete gearbeitet; person;
        wait waited waited; warten wartet wartete gewartet; person;
        eat ate eaten; essen isst aß gegessen; person;
        eat ate eaten; fressen frisst fraß gefressen; animal flyer;
        arrive arrived arrived; an|kommen kommt kam ist angekommen; person transport;
        leave left left; ab|fahren fährt fuhr ist abgefahren; transport;
        fly flew flown; fliegen fliegt flog ist geflogen; flyer;""",
    "transitive": """
        see saw seen; sehen sieht sah gesehen; person animal flyer; person animal flyer food vehicle
        know knew known; kennen kennt kannte gekannt; person; person text
        call called called; an|rufen ruft rief angerufen; person; person
        invite invited invited; ein|laden lädt lud eingeladen; person; person
        look_for looked_for looked_for; suchen sucht suchte gesucht; person; person animal tool clothing toy
        find found found; finden findet fand gefunden; person; tool clothing toy food
        forget forgot forgotten; vergessen vergisst vergaß vergessen; person; tool clothing text vessel
        buy bought bought; kaufen kauft kaufte gekauft; person; food drink clothing vehicle toy text tool vessel
        eat ate eaten; essen isst aß gegessen; person; food
        eat ate eaten; fressen frisst fraß gefressen; animal flyer; food
        drink drank drunk; trinken trinkt trank getrunken; person; drink
        read read read; lesen liest las gelesen; person; text
        write wrote written; schreiben schreibt schrieb geschrieben; person; text
        put_on put_on put_on; an|ziehen zieht zog angezogen; person; clothing
        take_off took_off taken_off; aus|ziehen zieht zog ausgezogen; person; clothing
        open opened opened; auf|machen macht machte aufgemacht; person; opening vessel
        close closed closed; zu|machen macht machte zugemacht; person; opening vessel
        repair repaired repaired; reparieren repariert reparierte repariert; person; vehicle toy opening
        watch watched watched; an|sehen sieht sah angesehen; person; contest
        leave left left; verlassen verlässt verließ verlassen; person; room
        help helped helped; helfen hilft half geholfen +dat; person; person
        listen_to listened_to listened_to; zu|hören hört hörte zugehört +dat; person; person
        wait_for waited_for waited_for; warten wartet wartete gewartet auf+acc; person; person transport
        think_of thought_of thought_of; denken denkt dachte gedacht an+acc; person; person contest
        play_with played_with played_with; spielen spielt spielte gespielt mit+dat; person animal; person animal toy""",
    "giving": """
        give gave given; geben gibt gab gegeben; person; food drink tool toy
        send sent sent; schicken schickt schickte geschickt; person; text toy vessel
        offer offered offered; an|bieten bietet bot angeboten; person; food drink""",
    "motion": """
        go went gone; gehen geht ging ist gegangen; person;
        run ran run; laufen läuft lief ist gelaufen; person animal;""",
    "that": """
        say said said; sagen sagt sagte gesagt; person;
        know knew known; wissen weiß wusste gewusst; person;""",
    "whether": """
        ask asked asked; fragen fragt fragte gefragt; person;
        know knew known; wissen weiß wusste gewusst; person;""",
}

# English; German stem; how it is inflected; whether the noun is singular, plural or a substance.
DETERMINERS = """
    the; d; definite; singular plural substance
    a; ein; ein; singular
    ; ; fixed; plural substance
    this; dies; definite; singular
    every; jed; definite; singular
    my; mein; ein; singular plural substance
    your; dein; ein; singular plural substance
    our; unser; ein; singular plural substance
    Anna 's; Annas; fixed; singular plural
    these; dies; definite; plural
    two; zwei; fixed; plural
    no; kein; ein;
"""
NAMES = "Anna Maria Julia Laura Eva Lisa Nina Peter David Martin Paul Jan Simon Robert"
# English subject and object; German nominative, accusative and dative; agreement.
PRONOUNS = """
    I me; ich mich mir; 1sg
    you you; du dich dir; 2sg
    he him; er ihn ihm; 3sg
    she her; sie sie ihr; 3sg
    we us; wir uns uns; 1pl
    they them; sie sie ihnen; 3pl
"""
# English; German; tenses.
TIMES = """
    today; heute; present past perfect future modal
    every day; jeden Tag; present past
    in the evening; am Abend; present past future modal
    in summer; im Sommer; present past future
    yesterday; gestern; past
    because of the rain; wegen des Regens; past perfect
    on Monday; am Montag; past future modal
    tomorrow; morgen; future modal
"""
# English; German in the 1st, 2nd and 3rd person and in the plural.
MODALS = """
    can; kann kannst kann können
    must; muss musst muss müssen
    should; sollte solltest sollte sollten
    would like to; möchte möchtest möchte möchten
"""
# English; German; the tense that the conjunction needs, and the kind of verb in front of it.
CONJUNCTIONS = """
    because; weil; ;
    although; obwohl; ;
    if; falls; present;
    when; wenn; present;
    when; als; past;
    that; dass; ; that
    whether; ob; ; whether
"""
