"""The adjectives, written by hand.

A line has three fields, which are separated by `;`: English, German, and the nouns that the adjective goes with.
English is `positive [comparative superlative]`.  Regular forms are left out: they end in `-er`, or have `more` where
the positive ends in `+`.  A final `!` marks an adjective that is not compared.
German is `positive [comparative superlative]`, and regular forms are left out.
The nouns are classes and single nouns; `class-noun` is the class without the noun.
"""

ADJECTIVES = """
    old; alt älter ältest; adult elder animal clothing furniture text vehicle building clock picture friend bridge \
tree
    young; jung jünger jüngst; adult relative animal beast
    small; klein; kid animal fruit dish thing vessel container furniture vehicle building room garden village \
island lake
    big bigger biggest; groß größer größt; animal beast fruit dish container furniture transport building room \
garden tree park forest city market meadow river mirror
    tall; groß größer größt; man woman kid relative
    friendly; freundlich; adult kid elder relative
    clever; klug klüger klügst; adult kid relative dog monkey
    tired+; müde; adult kid elder relative horse donkey
    rich; reich; man woman farmer king queen prince neighbour uncle aunt
    poor; arm ärmer ärmst; man woman student painter farmer neighbour
    famous+; berühmt; doctor painter singer dancer king queen lawyer writer building picture book novel poem song film
    strong; stark stärker stärkst; storm rain man farmer soldier policeman relative horse beast coffee tea wind
    brave; mutig; man woman kid soldier prince princess policeman pilot hunter dog
    lazy; faul; student pupil colleague waiter donkey cat
    hungry; hungrig; adult kid elder relative animal beast
    thirsty; durstig; adult kid elder relative animal beast
    sad sadder saddest; traurig; adult kid elder relative story song film poem
    happy; glücklich; adult kid elder relative
    sick!; krank kränker kränkst; adult kid elder relative animal
    angry; wütend; adult elder relative
    polite+; höflich; waiter waitress saleswoman colleague kid driver
    curious+; neugierig; adult kid cat monkey
    patient+; geduldig; teacher nurse doctor waiter elder
    honest+; ehrlich; man woman neighbour lawyer friend answer
    wild; wild; beast horse
    dangerous+; gefährlich; beast plan game street river
    fast; schnell; horse dog vehicle transport
    black!; schwarz; dog cat horse bird goat clothing umbrella sofa piano bag car
    white!; weiß; dog cat horse duck rabbit clothing vessel-lamp-clock-mirror house wall boat
    brown!; braun; dog horse cow bear bag box furniture-piano coat jacket
    red!; rot; apple tomato cherry clothing ball flower pencil car bicycle bus house bag sofa
    blue!; blau; clothing ball bird vase blanket car bicycle boat pencil suitcase
    green!; grün; apple pear clothing bottle door car ball sofa
    yellow!; gelb; pear clothing flower ball umbrella bus
    sweet; süß; fruit-tomato-potato-carrot cake biscuit juice lemonade wine tea
    fresh; frisch; fruit food-rice-chocolate-honey egg salad milk
    ripe; reif; fruit-potato-carrot
    delicious+; lecker; dish food
    hot hotter hottest; heiß; soup coffee tea potato
    cold; kalt kälter kältest; wind rain water milk juice beer lemonade lake river sea room cellar
    good better best; gut besser best; doctor teacher friend book novel story report plan answer question show wine \
cheese restaurant hotel
    bad worse worst; schlecht; report plan answer film wine hotel
    new; neu neuer neuest; text thing vessel container clothing furniture vehicle building plan rule exercise word show
    expensive+; teuer teurer teuerst; clothing furniture vehicle ring camera guitar clock wine hotel restaurant
    cheap; billig; clothing furniture vehicle ticket wine hotel restaurant
    beautiful+; schön; woman singer dancer princess dress flower picture ring doll building garden park city village \
beach island lake song poem horse bird
    heavy; schwer; container furniture vase mirror
    empty!; leer; glass bottle cup container house church bus train street
    full!; voll; glass bottle cup container-cupboard-drawer bus train
    clean; sauber; plate glass cup knife spoon fork clothing-hat kitchen room water
    dirty; schmutzig; plate glass cup knife spoon fork clothing window car bicycle room street
    modern+; modern; office station airport building-church-castle lamp furniture-piano factory
    quiet; ruhig; village street room library park hotel neighbour
    dark; dunkel dunkler dunkelst; cellar room forest street church
    wide; breit; street river bridge bed
    high; hoch höher höchst; tree wall bridge
    deep; tief; lake river sea snow
    long longer longest; lang länger längst; letter novel story report poem street bridge coat train film table
    short; kurz kürzer kürzest; letter story report message poem answer word film dress skirt
    important+; wichtig; idea-mistake letter report message book key
    difficult+; schwierig; problem question exercise language word text-message game
    easy; einfach; question answer exercise rule word plan language
    interesting+; interessant; text idea-mistake-rule show-song museum city
    boring+; langweilig; text-message show village
    strange; seltsam; man woman animal question answer plan word story letter picture message
    funny; lustig; story poem letter film song monkey hat kid
"""
