"""The words of both languages as tables: nouns, adjectives, determiners and adverbials. The verbs stand in `verbs`.

A table is a text with one word a line and columns two or more blanks apart. What a rule can derive is not written
down (see `inflection` and `english`). The last column names the *classes* of a word: they keep the sentences
sensible, because a verb asks for objects of a class: only a `text` can be read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass


def rows(table: str) -> Iterator[list[str]]:
    """The cells of each row; a lone "-" is an empty cell."""
    for line in table.strip().splitlines():
        yield ["" if cell == "-" else cell for cell in re.split(r"\s{2,}", line.strip())]


@dataclass(frozen=True, eq=False, slots=True)
class Noun:
    """A noun. `gender` is m, f or n; a `weak` masculine takes its plural's form in every case but the nominative.

    `plural` is "" for what is not counted (Tee). `pronoun` is the English one: das Mädchen is neuter, but "she".
    """

    german: str
    plural: str
    gender: str
    weak: bool
    english: str
    english_plural: str
    pronoun: str
    classes: frozenset[str]


# Gender (w: weak masculine), singular, plural ("=": like the singular, "-": none), English, further classes.
# Rooms and furniture name the prepositions that go with them.
_NOUNS = {
    "person": """
        m  Bäcker       =             baker        adult
        m  Koch         Köche         cook         adult
        m  Gärtner      =             gardener     adult
        m  Ritter       =             knight       adult
        m  König        Könige        king         adult
        m  Zauberer     =             wizard       adult
        m  Dieb         Diebe         thief/thieves  adult
        m  Arzt         Ärzte         doctor       adult
        m  Großvater    Großväter     grandfather  kin
        m  Onkel        =             uncle        kin
        m  Freund       Freunde       friend       kin
        w  Pirat        Piraten       pirate       adult
        w  Nachbar      Nachbarn      neighbour    adult kin
        w  Student      Studenten     student      adult
        w  Junge        Jungen        boy          child
        w  Riese        Riesen        giant        adult
        f  Hexe         Hexen         witch        adult
        f  Königin      Königinnen    queen        adult
        f  Lehrerin     Lehrerinnen   teacher      adult kin
        f  Malerin      Malerinnen    painter      adult
        f  Sängerin     Sängerinnen   singer       adult
        f  Detektivin   Detektivinnen  detective   adult
        f  Prinzessin   Prinzessinnen  princess    adult
        f  Großmutter   Großmütter    grandmother  kin
        f  Tante        Tanten        aunt         kin
        f  Schwester    Schwestern    sister       kin
        n  Mädchen      =             girl/girls/she  child
        n  Kind         Kinder        child/children  child kin
        """,
    "animal": """
        m  Hund         Hunde         dog          kin
        m  Fuchs        Füchse        fox
        m  Esel         =             donkey       kin
        m  Papagei      Papageien     parrot       kin
        m  Frosch       Frösche       frog
        m  Igel         =             hedgehog
        w  Bär          Bären         bear
        w  Drache       Drachen       dragon
        w  Affe         Affen         monkey
        f  Katze        Katzen        cat          kin
        f  Maus         Mäuse         mouse/mice
        f  Eule         Eulen         owl
        f  Ziege        Ziegen        goat         kin
        f  Gans         Gänse         goose/geese
        n  Pferd        Pferde        horse        kin
        n  Schwein      Schweine      pig
        n  Kaninchen    =             rabbit       kin
        n  Schaf        Schafe        sheep/sheep
        """,
    "food": """
        m  Apfel        Äpfel         apple
        m  Apfelkuchen  =             apple pie    baked
        m  Pfannkuchen  =             pancake      baked
        m  Keks         Kekse         biscuit      baked
        m  Kuchen       =             cake         baked
        f  Birne        Birnen        pear
        f  Karotte      Karotten      carrot
        f  Orange       Orangen       orange
        f  Nuss         Nüsse         nut
        f  Wurst        Würste        sausage      cooked
        f  Kartoffel    Kartoffeln    potato/potatoes  cooked
        n  Ei           Eier          egg          cooked
        n  Brötchen     =             bread roll   baked
        n  Käsebrot     Käsebrote     cheese sandwich
        """,
    "soup": """
        f  Tomatensuppe  -            tomato soup
        f  Kartoffelsuppe  -          potato soup
        m  Haferbrei    -             porridge
        """,
    "drink": """
        m  Tee          -             tea
        m  Kaffee       -             coffee
        m  Apfelsaft    -             apple juice
        f  Milch        -             milk
        n  Wasser       -             water
        """,
    "text": """
        m  Brief        Briefe        letter       message
        m  Liebesbrief  Liebesbriefe  love letter  message
        f  Postkarte    Postkarten    postcard     message
        f  Geschichte   Geschichten   story        tale
        f  Zeitung      Zeitungen     newspaper    paper
        n  Gedicht      Gedichte      poem         tale
        n  Märchen      =             fairy tale   tale
        n  Buch         Bücher        book         paper
        n  Kochbuch     Kochbücher    cookbook     paper
        n  Tagebuch     Tagebücher    diary        paper
        """,
    "thing": """
        m  Schlüssel    =             key          found
        m  Koffer       =             suitcase     box lid
        m  Korb         Körbe         basket       box
        m  Spiegel      =             mirror       breakable
        m  Besen        =             broom
        m  Ball         Bälle         ball         found
        m  Ring         Ringe         ring         found
        m  Schatz       Schätze       treasure     found
        m  Regenschirm  Regenschirme  umbrella     found
        f  Lampe        Lampen        lamp         machine breakable
        f  Uhr          Uhren         clock        machine breakable
        f  Kerze        Kerzen        candle
        f  Tasse        Tassen        cup          breakable
        f  Teekanne     Teekannen     teapot       breakable
        f  Blume        Blumen        flower
        f  Schatzkarte  Schatzkarten  treasure map  found
        f  Zahnbürste   Zahnbürsten   toothbrush   found
        n  Bild         Bilder        picture      found
        n  Kissen       =             pillow
        n  Messer       =             knife/knives  found
        n  Schwert      Schwerter     sword        found
        n  Fernrohr     Fernrohre     telescope    machine
        n  Fahrrad      Fahrräder     bicycle      machine found
        n  Paket        Pakete        parcel       box lid
        """,
    "clothes": """
        m  Hut          Hüte          hat
        m  Mantel       Mäntel        coat
        m  Handschuh    Handschuhe    glove
        m  Schal        Schals        scarf/scarves
        f  Krone        Kronen        crown
        f  Jacke        Jacken        jacket
        n  Kleid        Kleider       dress
        n  Hemd         Hemden        shirt
        """,
    "instrument": """
        n  Klavier      Klaviere      piano/pianos
        f  Geige        Geigen        violin
        f  Trompete     Trompeten     trumpet
        f  Flöte        Flöten        flute
        f  Gitarre      Gitarren      guitar
        """,
    "room": """
        m  Garten       Gärten        garden       in tidy
        m  Keller       =             cellar       in tidy
        m  Wald         Wälder        forest       in
        m  Turm         Türme         tower        in
        m  Park         Parks         park         in
        f  Küche        Küchen        kitchen      in tidy
        f  Bibliothek   Bibliotheken  library      in tidy
        f  Scheune      Scheunen      barn         in tidy
        f  Höhle        Höhlen        cave         in
        n  Schloss      Schlösser     castle       in
        n  Museum       Museen        museum       in
        n  Wohnzimmer   =             living room  in tidy
        n  Dach         Dächer        roof         auf
        n  Schiff       Schiffe       ship         auf
        f  Brücke       Brücken       bridge       auf
        """,
    "furniture": """
        m  Tisch        Tische        table        auf unter neben
        m  Küchentisch  Küchentische  kitchen table  auf unter neben
        m  Stuhl        Stühle        chair        auf unter neben
        m  Teppich      Teppiche      carpet       auf unter
        m  Schrank      Schränke      cupboard     in hinter neben opening
        m  Ofen         Öfen          stove        hinter neben
        m  Baum         Bäume         tree         unter hinter neben
        f  Kiste        Kisten        box          in hinter opening
        f  Bank         Bänke         bench        auf unter neben
        f  Tür          Türen         door         hinter neben vor opening
        n  Bett         Betten        bed          auf unter neben
        n  Sofa         Sofas         sofa         auf hinter neben
        n  Bücherregal  Bücherregale  bookshelf/bookshelves  neben hinter
        n  Fenster      =             window       neben vor opening
        """,
}


def _plural_of(english: str) -> str:
    """cat -> cats, fox -> foxes, story -> stories."""
    if english.endswith(("s", "x", "ch", "sh")):
        return english + "es"
    if english.endswith("y") and english[-2] not in "aeiou":
        return english[:-1] + "ies"
    return english + "s"


def _read_nouns() -> Iterator[Noun]:
    for section, table in _NOUNS.items():
        for gender, german, plural, names, *classes in rows(table):
            english, english_plural, pronoun = (*names.split("/"), "", "")[:3]
            weak, gender = gender == "w", gender.replace("w", "m")
            usual = {"m": "he", "f": "she", "n": "it"}[gender] if section == "person" else "it"
            yield Noun(
                german, german if plural == "=" else plural, gender, weak, english,
                english_plural or _plural_of(english), pronoun or usual,
                frozenset([section, *" ".join(classes).split()]),
            )  # fmt: skip


NOUNS = list(_read_nouns())


def pairs(table: str) -> list[tuple[str, str]]:
    """The rows of a table of two columns."""
    return [(german, english) for german, english in rows(table)]


def nouns_of(classes: str) -> list[Noun]:
    """The nouns that belong to one of the classes: `nouns_of("food text")`."""
    wanted = set(classes.split())
    return [noun for noun in NOUNS if wanted & noun.classes]


@dataclass(frozen=True, eq=False, slots=True)
class Adjective:
    """An adjective and the classes of the nouns that it may describe."""

    german: str
    english: str
    classes: frozenset[str]


_ADJECTIVES = """
    alt         old          adult animal thing room furniture text instrument clothes
    jung        young        adult animal
    klein       little       child animal thing furniture
    groß        big          animal thing room furniture
    arm         poor         person animal
    reich       rich         adult
    berühmt     famous       adult
    höflich     polite       person
    freundlich  friendly     person animal
    klug        clever       person animal
    faul        lazy         person animal
    mutig       brave        person animal
    müde        tired        person animal
    hungrig     hungry       person animal
    neugierig   curious      person animal
    traurig     sad          person animal
    wütend      angry        person animal
    glücklich   happy        person animal
    fleißig     hardworking  person
    weiß        white        animal clothes furniture
    schwarz     black        animal clothes instrument
    rot         red          thing furniture clothes
    blau        blue         thing furniture clothes
    grün        green        thing furniture clothes
    golden      golden       thing instrument
    neu         new          thing furniture instrument clothes
    schön       beautiful    thing instrument room clothes
    schwer      heavy        box furniture
    leer        empty        box
    krank       sick         person animal
    dick        fat          animal
    gefährlich  dangerous    animal
    kaputt      broken       machine breakable instrument
    frisch      fresh        food drink
    süß         sweet        baked drink
    warm        warm         baked cooked soup clothes
    kalt        cold         soup drink room
    heiß        hot          soup drink
    lecker      delicious    food soup
    lang        long         text
    lustig      funny        text
    langweilig  boring       text
    spannend    exciting     tale paper
    geheim      secret       message
    dunkel      dark         room
    ruhig       quiet        room
"""
ADJECTIVES = [Adjective(de, en, frozenset(classes.split())) for de, en, classes in rows(_ADJECTIVES)]
ADJECTIVES_OF = {noun: [a for a in ADJECTIVES if a.classes & noun.classes] for noun in NOUNS}

# Positive and comparative of both languages.
COMPARISONS = list(
    rows("""
    alt      älter      old      older
    jung     jünger     young    younger
    klug     klüger     clever   cleverer
    stark    stärker    strong   stronger
    schnell  schneller  fast     faster
    faul     fauler     lazy     lazier
    mutig    mutiger    brave    braver
    groß     größer     big      bigger
""")
)


@dataclass(frozen=True, eq=False, slots=True)
class Determiner:
    """`declension` chooses the endings of the article and of the adjective after it: see `inflection`."""

    german: str
    declension: str
    english: str
    english_plural: str


DEFINITE = Determiner("d", "der", "the", "the")
INDEFINITE = Determiner("ein", "ein", "a", "")
KEIN = Determiner("kein", "ein", "a", "any")  # "not ... a cake", "not ... any cakes"
KEIN_UNCOUNTED = Determiner("kein", "ein", "any", "any")
THIS = Determiner("dies", "dieser", "this", "these")
EVERY = Determiner("jed", "dieser", "every", "")
BARE = Determiner("", "bare", "", "")
INSTRUMENT = Determiner("", "bare", "the", "the")  # Klavier spielen, play the piano
NUMBERS = [Determiner("zwei", "bare", "", "two"), Determiner("drei", "bare", "", "three")]
MANY = Determiner("viel", "strong", "", "many")
MY = Determiner("mein", "ein", "my", "my")
YOUR = Determiner("dein", "ein", "your", "your")
OUR = Determiner("unser", "ein", "our", "our")
YOUR_PLURAL = Determiner("euer", "ein", "your", "your")
# The possessive that points back to a subject, by the German stem and the English word.
POSSESSIVES = {
    "he": Determiner("sein", "ein", "his", "his"),
    "she": Determiner("ihr", "ein", "her", "her"),
    "girl": Determiner("sein", "ein", "her", "her"),  # das Mädchen ... sein Hut
    "they": Determiner("ihr", "ein", "their", "their"),
}

# Adverbials of time by what they ask of the verb.
NOW = pairs("""
    heute           today
    jetzt           now
    gerade          right now
    heute Abend     this evening
""")
HABIT = pairs("""
    jeden Tag       every day
    jeden Morgen    every morning
    jeden Abend     every evening
    am Sonntag      on Sundays
    im Winter       in winter
    im Sommer       in summer
""")
PAST = pairs("""
    gestern         yesterday
    gestern Abend   yesterday evening
    letzte Woche    last week
    vor drei Tagen  three days ago
    am Montag       on Monday
    in der Nacht    during the night
""")
FUTURE = pairs("""
    morgen          tomorrow
    bald            soon
    nächste Woche   next week
    morgen Abend    tomorrow evening
""")
FREQUENCY = pairs("""
    oft             often
    immer           always
    manchmal        sometimes
    nie             never
""")
