"""The nouns, written by hand: a table for each semantic class, and a line for each noun.

The columns are English, German, gender (m, f or n), German plural, German genitive singular, and the English plural
where it is irregular.  The plural `-` marks a noun without plural, and the genitive `-` is the same as the nominative.
"""

from typing import Dict

NOUN_TABLES: Dict[str, str] = {
    "adult": """
        man Mann m Männer Mannes men
        woman Frau f Frauen - women
        teacher Lehrer m Lehrer Lehrers
        doctor Arzt m Ärzte Arztes
        student Student m Studenten Studenten
        neighbour Nachbar m Nachbarn Nachbarn
        farmer Bauer m Bauern Bauern
        baker Bäcker m Bäcker Bäckers
        gardener Gärtner m Gärtner Gärtners
        painter Maler m Maler Malers
        singer Sängerin f Sängerinnen -
        dancer Tänzerin f Tänzerinnen -
        king König m - Königs
        queen Königin f - -
        guest Gast m Gäste Gastes
        colleague Kollege m Kollegen Kollegen
        policeman Polizist m Polizisten Polizisten policemen
        nurse Krankenschwester f Krankenschwestern -
        waiter Kellner m Kellner Kellners
        waitress Kellnerin f Kellnerinnen -
        tourist Tourist m Touristen Touristen
        driver Fahrer m Fahrer Fahrers
        hunter Jäger m Jäger Jägers
        thief Dieb m Diebe Diebes thieves
        lawyer Anwalt m Anwälte Anwalts
        pilot Pilot m Piloten Piloten
        soldier Soldat m Soldaten Soldaten
        prince Prinz m Prinzen Prinzen
        princess Prinzessin f Prinzessinnen -
        saleswoman Verkäuferin f Verkäuferinnen - saleswomen
        writer Schriftsteller m Schriftsteller Schriftstellers
        """,
    "kid": """
        child Kind n Kinder Kindes children
        boy Junge m Jungen Jungen
        girl Mädchen n Mädchen Mädchens
        pupil Schüler m Schüler Schülers
        """,
    "elder": """
        father Vater m - Vaters
        mother Mutter f - -
        uncle Onkel m - Onkels
        aunt Tante f - -
        grandfather Großvater m - Großvaters
        grandmother Großmutter f - -
        boss Chef m - Chefs
        """,
    "relative": """
        brother Bruder m Brüder Bruders
        sister Schwester f Schwestern -
        son Sohn m Söhne Sohnes
        daughter Tochter f Töchter -
        cousin Cousin m Cousins Cousins
        friend Freund m Freunde Freundes
        """,
    "animal": """
        dog Hund m Hunde Hundes
        cat Katze f Katzen -
        horse Pferd n Pferde Pferdes
        cow Kuh f Kühe -
        bird Vogel m Vögel Vogels
        mouse Maus f Mäuse - mice
        pig Schwein n Schweine Schweines
        duck Ente f Enten -
        rabbit Kaninchen n Kaninchen Kaninchens
        donkey Esel m Esel Esels
        goat Ziege f Ziegen -
        """,
    "beast": """
        bear Bär m Bären Bären
        wolf Wolf m Wölfe Wolfes wolves
        fox Fuchs m Füchse Fuchses
        lion Löwe m Löwen Löwen
        elephant Elefant m Elefanten Elefanten
        monkey Affe m Affen Affen
        snake Schlange f Schlangen -
        """,
    "fruit": """
        apple Apfel m Äpfel Apfels
        pear Birne f Birnen -
        orange Orange f Orangen -
        banana Banane f Bananen -
        tomato Tomate f Tomaten - tomatoes
        plum Pflaume f Pflaumen -
        cherry Kirsche f Kirschen -
        potato Kartoffel f Kartoffeln - potatoes
        carrot Karotte f Karotten -
        """,
    "dish": """
        cake Kuchen m Kuchen Kuchens
        egg Ei n Eier Eies
        sausage Wurst f Würste -
        soup Suppe f Suppen -
        salad Salat m Salate Salats
        pizza Pizza f Pizzas -
        biscuit Keks m Kekse Kekses
        """,
    "food": """
        bread Brot n - Brotes
        cheese Käse m - Käses
        meat Fleisch n - Fleisches
        fish Fisch m - Fisches
        rice Reis m - Reises
        butter Butter f - -
        chocolate Schokolade f - -
        honey Honig m - Honigs
        """,
    "drink": """
        water Wasser n - Wassers
        milk Milch f - -
        tea Tee m - Tees
        coffee Kaffee m - Kaffees
        juice Saft m - Saftes
        beer Bier n - Bieres
        wine Wein m - Weines
        lemonade Limonade f - -
        """,
    "text": """
        book Buch n Bücher Buches
        letter Brief m Briefe Briefes
        newspaper Zeitung f Zeitungen -
        story Geschichte f Geschichten -
        poem Gedicht n Gedichte Gedichts
        novel Roman m Romane Romans
        report Bericht m Berichte Berichts
        message Nachricht f Nachrichten -
        """,
    "thing": """
        ball Ball m Bälle Balles
        doll Puppe f Puppen -
        key Schlüssel m Schlüssel Schlüssels
        knife Messer n Messer Messers knives
        spoon Löffel m Löffel Löffels
        fork Gabel f Gabeln -
        umbrella Regenschirm m Regenschirme Regenschirms
        ring Ring m Ringe Ringes
        blanket Decke f Decken -
        pillow Kissen n Kissen Kissens
        picture Bild n Bilder Bildes
        pencil Bleistift m Bleistifte Bleistifts
        ticket Fahrkarte f Fahrkarten -
        camera Kamera f Kameras -
        guitar Gitarre f Gitarren -
        gift Geschenk n Geschenke Geschenks
        flower Blume f Blumen -
        telephone Telefon n Telefone Telefons
        """,
    "vessel": """
        cup Tasse f Tassen -
        glass Glas n Gläser Glases
        plate Teller m Teller Tellers
        bottle Flasche f Flaschen -
        lamp Lampe f Lampen -
        vase Vase f Vasen -
        clock Uhr f Uhren -
        mirror Spiegel m Spiegel Spiegels
        """,
    "container": """
        bag Tasche f Taschen -
        box Kiste f Kisten -
        suitcase Koffer m Koffer Koffers
        basket Korb m Körbe Korbes
        cupboard Schrank m Schränke Schrankes
        drawer Schublade f Schubladen -
        """,
    "clothing": """
        hat Hut m Hüte Hutes
        coat Mantel m Mäntel Mantels
        dress Kleid n Kleider Kleides
        shirt Hemd n Hemden Hemdes
        jacket Jacke f Jacken -
        skirt Rock m Röcke Rockes
        scarf Schal m Schals Schals scarves
        """,
    "furniture": """
        table Tisch m Tische Tisches
        chair Stuhl m Stühle Stuhles
        bed Bett n Betten Bettes
        sofa Sofa n Sofas Sofas
        piano Klavier n Klaviere Klaviers
        """,
    "landmark": """
        door Tür f Türen -
        tree Baum m Bäume Baumes
        window Fenster n Fenster Fensters
        wall Mauer f Mauern -
        """,
    "vehicle": """
        car Auto n Autos Autos
        bicycle Fahrrad n Fahrräder Fahrrads
        boat Boot n Boote Bootes
        """,
    "transport": """
        bus Bus m Busse Busses
        train Zug m Züge Zuges
        ship Schiff n Schiffe Schiffes
        plane Flugzeug n Flugzeuge Flugzeugs
        """,
    "building": """
        house Haus n Häuser Hauses
        school Schule f Schulen -
        church Kirche f Kirchen -
        museum Museum n Museen Museums
        theatre Theater n Theater Theaters
        cinema Kino n Kinos Kinos
        hospital Krankenhaus n Krankenhäuser Krankenhauses
        hotel Hotel n Hotels Hotels
        restaurant Restaurant n Restaurants Restaurants
        library Bibliothek f Bibliotheken -
        factory Fabrik f Fabriken -
        castle Schloss n Schlösser Schlosses
        """,
    "rooms": """
        kitchen Küche f Küchen -
        room Zimmer n Zimmer Zimmers
        cellar Keller m Keller Kellers
        office Büro n Büros Büros
        """,
    "outdoors": """
        garden Garten m Gärten Gartens
        park Park m Parks Parks
        forest Wald m Wälder Waldes
        city Stadt f Städte -
        village Dorf n Dörfer Dorfes
        station Bahnhof m Bahnhöfe Bahnhofs
        airport Flughafen m Flughäfen Flughafens
        market Markt m Märkte Marktes
        beach Strand m Strände Strandes
        island Insel f Inseln -
        meadow Wiese f Wiesen -
        bridge Brücke f Brücken -
        street Straße f Straßen -
        """,
    "waters": """
        lake See m Seen Sees
        river Fluss m Flüsse Flusses
        sea Meer n Meere Meeres
        """,
    "idea": """
        problem Problem n Probleme Problems
        question Frage f Fragen -
        answer Antwort f Antworten -
        plan Plan m Pläne Planes
        rule Regel f Regeln -
        exercise Übung f Übungen -
        mistake Fehler m Fehler Fehlers
        word Wort n Wörter Wortes
        language Sprache f Sprachen -
        secret Geheimnis n Geheimnisse Geheimnisses
        """,
    "show": """
        song Lied n Lieder Liedes
        film Film m Filme Filmes
        game Spiel n Spiele Spieles
        """,
    "state": """
        time Zeit f - -
        money Geld n - Geldes
        """,
    "weather": """
        rain Regen m - Regens
        snow Schnee m - Schnees
        wind Wind m - Windes
        storm Sturm m - Sturmes
        """,
}

# Columns: the noun; English and German preposition of a place; German preposition of a goal, or `-` if it is none.
PLACE_PREPOSITIONS = """
    house in in in | school at in in | church in in in | museum in in in | theatre in in in | cinema in in in
    hospital in in in | hotel in in in | restaurant in in in | library in in in | factory in in in | castle in in in
    kitchen in in in | room in in in | cellar in in in | office in in in
    garden in in in | park in in in | forest in in in | city in in in | village in in in | station at an zu
    airport at an zu | market at auf auf | beach on an an | island on auf auf | meadow in auf auf
    bridge on auf zu | street in auf - | lake at an an | river at an an | sea at an an
"""
