"""The verbs, written by hand: a table for each pattern of complements, and a line for each verb.

A line has five fields, which are separated by `;`: English, German, subjects, objects and extras.
English is `infinitive [past participle]`, without the forms of regular verbs.  `_` stands for a space, and a final `*`
marks a state, which has no progressive form and no adverbials.
German is `infinitive [third-person preterite participle]`, without the forms of weak verbs.  `|` follows a separable
prefix, and `ist` stands before the participle where the perfect takes `sein`.
Subjects and objects are noun classes or single nouns; `person` is adult, kid, elder, relative, names and pronouns.
Extras are `place` (it may take a place), `for` (it may take a phrase with for), `one` (its object is no plural), `noun`
(its object is no pronoun), `to` (the English indirect object follows `to`), `indefinite` (its object is indefinite),
`once` (it is no habit), `simple` (it has no progressive form), `lying`, `standing`, and adverbs of manner.
"""

from typing import Dict

VERB_TABLES: Dict[str, str] = {
    "intransitive": """
        sleep slept slept; schlafen schläft schlief geschlafen; person animal; ; place well
        work; arbeiten; grown; ; place slowly quickly carefully alone together
        laugh; lachen; person; ; place loudly quietly
        cry; weinen; person; ; place loudly quietly alone
        sing sang sung; singen singt sang gesungen; person; ; place loudly quietly well
        dance; tanzen; person; ; place slowly well alone
        wait; warten; person; ; place alone
        cook; kochen; grown; ; place well
        play; spielen; kid animal; ; place quietly alone
        smoke; rauchen; grown; ; place
        whisper; flüstern; person; ; quietly
        pray; beten betet betete gebetet; grown elder; ; place quietly alone
        scream; schreien schreit schrie geschrien; person; ; place loudly
        bark; bellen bellt bellte gebellt; dog; ; place loudly
        arrive; an|kommen kommt kam ist angekommen; person transport
        get_up got_up got_up; auf|stehen steht stand ist aufgestanden; person
        fall_asleep fell_asleep fallen_asleep; ein|schlafen schläft schlief ist eingeschlafen; person
        depart; ab|fahren fährt fuhr ist abgefahren; bus train ship
        come_back came_back come_back; zurück|kommen kommt kam ist zurückgekommen; person
        run_away ran_away run_away; weg|laufen läuft lief ist weggelaufen; kid animal beast; ; once
        wake_up woke_up woken_up; auf|wachen ist; person
        watch_television; fern|sehen sieht sah ferngesehen; person; ; place alone together
        land; landen ist; plane; ; slowly
        bloom; blühen; flower tree
        burn; brennen brennt brannte gebrannt; house church factory; ; once
        """,
    "swim": """
        swim swam swum; schwimmen schwimmt schwamm ist geschwommen; person duck; waters; slowly quickly alone
        """,
    "motion": """
        go went gone; gehen geht ging ist gegangen; person; ; alone together
        run ran run; laufen läuft lief ist gelaufen; person; ; quickly
        drive drove driven; fahren fährt fuhr ist gefahren; grown; ; slowly quickly
        come came come; kommen kommt kam ist gekommen; person; ; alone together
        return; zurück|kehren ist; grown
        """,
    "travel": """
        travel; reisen ist; grown; ; alone together
        fly flew flown; fliegen fliegt flog ist geflogen; grown
        """,
    "stay": """
        live*; wohnen; person
        stay; bleiben bleibt blieb ist geblieben; person; ; alone
        """,
    "transitive": """
        eat ate eaten; essen isst aß gegessen; person; fruit dish food; place
        drink drank drunk; trinken trinkt trank getrunken; person; drink; place
        buy bought bought; kaufen; grown; fruit dish food text thing vessel clothing furniture vehicle animal; for
        sell sold sold; verkaufen; grown; fruit dish food text clothing furniture vehicle house animal
        order; bestellen; grown; dish drink; place for
        cook; kochen; grown; soup egg potato rice meat fish; for
        bake; backen backt backte gebacken; grown; cake pizza biscuit bread; for
        cut cut cut; schneiden schneidet schnitt geschnitten; grown; cake bread cheese meat tomato
        wash; waschen wäscht wusch gewaschen; person; clothing plate cup glass fork spoon blanket pillow car fruit
        read read read; lesen liest las gelesen; person; text question; place
        write wrote written; schreiben schreibt schrieb geschrieben; person; letter book novel poem story report message
        find found found; finden findet fand gefunden; person; thing text container money answer mistake; place simple
        lose lost lost; verlieren verliert verlor verloren; person; key ring ticket bag money hat pencil; place simple
        look_for; suchen; person; thing text container clothing; place
        carry; tragen trägt trug getragen; person; container furniture ball
        need*; brauchen; person; key knife spoon umbrella ticket camera time money water coat answer; noun
        forget forgot forgotten; vergessen vergisst vergaß vergessen; person; key bag ticket word answer; noun simple
        steal stole stolen; stehlen stiehlt stahl gestohlen; thief; ring money picture camera clock bag car bicycle
        hide hid hidden; verstecken; person; key money letter gift ring; place
        repair; reparieren; grown; vehicle lamp clock camera door window chair guitar; place
        clean; putzen; person; window kitchen mirror room car
        paint; malen; person; picture wall door
        draw drew drawn; zeichnen; person; animal beast tree house ship flower
        break broke broken; zerbrechen zerbricht zerbrach zerbrochen; person; cup glass plate vase mirror; once
        open; öffnen; person; door window bottle box letter gift suitcase drawer
        close; schließen schließt schloss geschlossen; person; door window box suitcase drawer
        throw threw thrown; werfen wirft warf geworfen; kid; ball
        catch caught caught; fangen fängt fing gefangen; cat; mouse bird
        wear wore worn; tragen trägt trug getragen; person; hat coat shirt jacket scarf; one
        wear wore worn; tragen trägt trug getragen; female; dress skirt; one
        see saw seen; sehen sieht sah gesehen; person; person animal beast building transport film; place simple
        hear heard heard; hören; person; song bird dog story; simple
        know* knew known; kennen kennt kannte gekannt; person; person song film book rule secret city
        visit; besuchen; grown; person city museum school castle
        love*; lieben; person; person dog cat horse city
        hate*; hassen; person; rain snow cheese fish
        like* liked liked; mögen mag mochte gemocht; person; person dog cat horse fruit dish food drink show text
        meet met met; treffen trifft traf getroffen; person; person; place
        call; an|rufen ruft rief angerufen; person; person
        invite; ein|laden lädt lud eingeladen; person; person
        greet; grüßen; person; person; place
        miss*; vermissen; person; person
        kiss; küssen; grown; person
        marry; heiraten; adult; prince princess doctor singer king queen; one once
        wake woke woken; wecken; person; person
        admire*; bewundern; person; singer dancer writer painter picture castle
        understand* understood understood; verstehen versteht verstand verstanden; person; idea text
        pick_up; ab|holen; grown; person; noun
        ask; fragen; person; person
        praise; loben; grown; person
        watch; beobachten; person; person animal beast; place
        photograph; fotografieren; person; animal beast building bridge; place
        feed fed fed; füttern; person; animal
        hunt; jagen; hunter; beast
        save; retten; grown; person animal; once
        push; schieben schiebt schob geschoben; person; bicycle car furniture
        build built built; bauen; grown; house bridge church castle wall boat; once
        tidy_up; auf|räumen; person; room kitchen cellar office; one
        put_on put_on put_on; an|ziehen zieht zog angezogen; person; hat coat shirt jacket; one noun
        take_off took_off taken_off; aus|ziehen zieht zog ausgezogen; person; hat coat shirt jacket; one noun
        bring_along brought_along brought_along; mit|bringen bringt brachte mitgebracht; person; dish drink flower; noun
        throw_away threw_away thrown_away; weg|werfen wirft warf weggeworfen; person; letter newspaper vessel; noun
        look_at; an|schauen; person; picture film animal beast building
        learn; lernen; person; word rule language poem song
        sing sang sung; singen singt sang gesungen; person; song; place
        solve; lösen; person; problem exercise
        discover; entdecken; person; secret mistake island castle; one once simple
        translate; übersetzen; grown; text word
        win won won; gewinnen gewinnt gewann gewonnen; person; game; one
        collect; sammeln; person; picture
        pack; packen; person; suitcase bag
        rent; mieten; grown; house room vehicle; one
        fetch; holen; person; container furniture drink vessel; for
        pay paid paid; bezahlen; grown; waiter waitress; one
        turn_on; ein|schalten; person; lamp; one noun
        turn_off; aus|schalten; person; lamp; one noun
        prepare; vor|bereiten; grown; dish; for
        bite bit bitten; beißen beißt biss gebissen; dog snake; person; once
        have* had had; haben hat hatte gehabt; person; animal text clothing vehicle question time relative; indefinite
        """,
    "dative": """
        help; helfen hilft half geholfen; person; person; place
        thank; danken; person; person
        trust*; vertrauen; person; person
        follow; folgen ist; person animal; person
        answer; antworten; person; person
        congratulate; gratulieren; person; person
        listen_to; zu|hören; person; person singer teacher
        forgive forgave forgiven; verzeihen verzeiht verzieh verziehen; person; person; simple
        believe*; glauben; person; person
        serve; dienen; soldier waiter; king queen prince princess
        belong_to*; gehören; thing text clothing vehicle house; person; one
        """,
    "ditransitive": """
        give gave given; geben gibt gab gegeben; person; fruit dish drink text thing vessel
        show showed shown; zeigen; person; text thing building room garden animal
        send sent sent; schicken; grown; letter message report gift flower book picture
        bring brought brought; bringen bringt brachte gebracht; person; dish drink vessel newspaper flower chair blanket
        lend lent lent; leihen leiht lieh geliehen; grown; book vehicle umbrella pencil money camera coat
        explain; erklären; grown; idea; to
        tell told told; erzählen; person; story secret
        recommend; empfehlen empfiehlt empfahl empfohlen; grown; book novel restaurant hotel film museum; to
        offer; an|bieten bietet bot angeboten; grown; dish drink fruit chair
        return; zurück|geben gibt gab zurückgegeben; person; book key camera money picture bicycle; to
        describe; beschreiben beschreibt beschrieb beschrieben; person; animal building picture thief; to
        promise; versprechen verspricht versprach versprochen; elder grown; gift dog bicycle book doll; one once simple
        """,
    "prepositional": """
        wait_for; warten auf+acc; person; person bus train answer letter; place
        think_of thought_of thought_of; denken denkt dachte gedacht an+acc; person; person problem plan
        talk_about; sprechen spricht sprach gesprochen über+acc; person; person idea text film
        dream_of; träumen von+dat; person; person vehicle island house sea
        laugh_about; lachen über+acc; person; story mistake answer film
        play_with; spielen mit+dat; kid; animal ball doll kid; place
        dance_with; tanzen mit+dat; grown; person; place
        ask_for; bitten bittet bat gebeten um+acc; person; water bread money time answer
        fight_against fought_against fought_against; kämpfen gegen+acc; soldier king prince; beast soldier
        work_for; arbeiten für+acc; grown; lawyer king queen farmer museum hotel
        """,
    "position": """
        lie lay lain; liegen liegt lag gelegen; book letter newspaper key knife ball picture pencil cat dog; ; lying
        stand stood stood; stehen steht stand gestanden; vessel person bicycle; ; standing
        sit sat sat; sitzen sitzt saß gesessen; person cat; ; lying
        """,
    "placement": """
        lay laid laid; legen; person; book letter newspaper key knife spoon picture pencil blanket coat; lying
        put put put; stellen; person; cup glass plate bottle lamp vase; standing
        """,
    "that": """
        know* knew known; wissen weiß wusste gewusst; person
        believe*; glauben; person
        think* thought thought; denken denkt dachte gedacht; person
        hope*; hoffen; person
        say* said said; sagen; person
        """,
    "whether": """
        ask*; fragen; person
        """,
    "infinitive": """
        try; versuchen; person
        hope*; hoffen; person
        promise*; versprechen verspricht versprach versprochen; person
        decide*; beschließen beschließt beschloss beschlossen; person
        forget* forgot forgotten; vergessen vergisst vergaß vergessen; person
        """,
}
