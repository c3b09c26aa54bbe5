"""The words of the grammar, as tables: nouns, adjectives, adverbs and determiners. The verbs stand in `verbs`.

A table is a text; a row is a line, and columns stand two or more blanks apart. What a rule can derive is not written
down: the rules are in `inflection` (German) and `english`. The last columns name the *classes* of a word. They keep
nonsense out of the corpus: only a `text` can be read, and only `food` is eaten.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass


def rows(table: str) -> Iterator[list[str]]:
    """The cells of each row; a lone "-" is an empty cell."""
    for line in table.strip().splitlines():
        yield ["" if cell == "-" else cell for cell in re.split(r"\s{2,}", line.strip())]


# --- nouns ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class Noun:
    """A noun of both languages. `gender` is "m", "f" or "n"; a `weak` masculine ends in -n everywhere but in the
    nominative singular (der Pirat, den Piraten). `pronoun` is the English one: das Mädchen is neuter, but "she"."""

    german: str
    plural: str
    gender: str
    weak: bool
    english: str
    english_plural: str  # "" when regular
    pronoun: str
    classes: frozenset[str]


# Gender (w: weak masculine), German, plural, English/irregular plural, further classes. A pronoun in brackets
# overrides the one of the gender. Room and furniture name the prepositions that go with them.
NOUNS = {
    "person": """
        m  Bäcker     -           baker           adult
        m  Koch       Köche       cook            adult
        m  Gärtner    -           gardener        adult
        m  Ritter     -           knight          adult
        m  König      Könige      king            adult
        m  Zauberer   -           wizard          adult
        m  Dieb       Diebe       thief/thieves   adult
        m  Großvater  Großväter   grandfather     kin
        m  Onkel      -           uncle           kin
        w  Pirat      Piraten     pirate          adult
        w  Nachbar    Nachbarn    neighbour       adult kin
        w  Student    Studenten   student         adult
        w  Junge      Jungen      boy             child
        w  Riese      Riesen      giant           adult
        w  Drache     Drachen     dragon          adult flier
        f  Hexe       Hexen       witch           adult flier
        f  Königin    Königinnen  queen           adult
        f  Ärztin     Ärztinnen   doctor          adult
        f  Lehrerin   Lehrerinnen  teacher        adult kin
        f  Malerin    Malerinnen  painter         adult
        f  Sängerin   Sängerinnen  singer         adult
        f  Detektivin  Detektivinnen  detective   adult
        f  Prinzessin  Prinzessinnen  princess    child
        f  Großmutter  Großmütter  grandmother    kin
        f  Tante      Tanten      aunt            kin
        n  Mädchen    -           girl (she)      child
        n  Kind       Kinder      child/children  child kin
        n  Gespenst   Gespenster  ghost           flier
    """,
    "animal": """
        m  Hund       Hunde       dog             kin
        m  Fuchs      Füchse      fox
        m  Esel       -           donkey          kin
        m  Papagei    Papageien   parrot          kin flier
        m  Frosch     Frösche     frog
        m  Igel       -           hedgehog
        w  Bär        Bären       bear
        f  Katze      Katzen      cat             kin
        f  Maus       Mäuse       mouse/mice
        f  Eule       Eulen       owl             flier
        f  Ziege      Ziegen      goat            kin
        f  Gans       Gänse       goose/geese     flier
        n  Pferd      Pferde      horse           kin
        n  Schwein    Schweine    pig
        n  Kaninchen  -           rabbit          kin
    """,
    "food": """
        m  Apfel      Äpfel       apple
        m  Apfelkuchen  -         apple pie       baked
        m  Pfannkuchen  -         pancake         baked
        m  Keks       Kekse       biscuit         baked
        m  Kuchen     -           cake            baked
        f  Birne      Birnen      pear
        f  Karotte    Karotten    carrot
        f  Nuss       Nüsse       nut
        f  Wurst      Würste      sausage         cooked
        f  Suppe      Suppen      soup            cooked
        f  Kartoffelsuppe  Kartoffelsuppen  potato soup  cooked
        n  Ei         Eier        egg             cooked
        n  Brötchen   -           bread roll      baked
        n  Käsebrot   Käsebrote   cheese sandwich
    """,
    "text": """
        m  Brief      Briefe      letter          message
        m  Liebesbrief  Liebesbriefe  love letter  message
        f  Postkarte  Postkarten  postcard        message
        f  Geschichte  Geschichten  story         tale story
        f  Zeitung    Zeitungen   newspaper       paper
        n  Gedicht    Gedichte    poem            tale
        n  Märchen    -           fairy tale      tale story
        n  Buch       Bücher      book            paper
        n  Kochbuch   Kochbücher  cookbook        paper
        n  Tagebuch   Tagebücher  diary           paper
    """,
    "secret": """
        m  Witz       Witze       joke            amusing
        m  Traum      Träume      dream
        n  Geheimnis  Geheimnisse  secret
    """,
    "thing": """
        m  Schlüssel  -           key  flat
        m  Haustürschlüssel  -    front door key  flat
        m  Koffer     -           suitcase        box upright
        m  Korb       Körbe       basket          box upright
        m  Spiegel    -           mirror  upright
        m  Besen      -           broom  upright
        m  Ball       Bälle       ball  flat
        m  Ring       Ringe       ring  flat
        m  Schatz     Schätze     treasure
        m  Regenschirm  Regenschirme  umbrella  upright
        m  Hut        Hüte        hat             headgear flat
        m  Mantel     Mäntel      coat            clothes flat
        m  Handschuh  Handschuhe  glove           clothes flat
        f  Krone      Kronen      crown           headgear
        f  Lampe      Lampen      lamp            machine upright
        f  Uhr        Uhren       clock           machine upright
        f  Armbanduhr  Armbanduhren  wristwatch   machine flat
        f  Kerze      Kerzen      candle  upright
        f  Tasse      Tassen      cup  upright
        f  Teekanne   Teekannen   teapot  upright
        f  Blume      Blumen      flower  flat
        f  Schatzkarte  Schatzkarten  treasure map  flat
        f  Zahnbürste  Zahnbürsten  toothbrush  flat
        n  Bild       Bilder      picture  flat
        n  Kissen     -           pillow  flat
        n  Messer     -           knife/knives  flat
        n  Schwert    Schwerter   sword  flat
        n  Fernrohr   Fernrohre   telescope       machine
        n  Fahrrad    Fahrräder   bicycle         machine
        n  Paket      Pakete      parcel          box upright
        n  Kleid      Kleider     dress           clothes flat
    """,
    "instrument": """
        n  Klavier    Klaviere    piano/pianos
        f  Geige      Geigen      violin
        f  Trompete   Trompeten   trumpet
        f  Flöte      Flöten      flute
        f  Gitarre    Gitarren    guitar
    """,
    "room": """
        m  Garten     Gärten      garden          in ground tidy work
        m  Keller     -           cellar          in ground tidy home
        m  Wald       Wälder      forest          in ground home
        m  Turm       Türme       tower           in ground home
        f  Küche      Küchen      kitchen         in ground tidy work
        f  Bibliothek  Bibliotheken  library      in ground tidy work
        f  Scheune    Scheunen    barn            in ground tidy work
        f  Höhle      Höhlen      cave            in ground home
        n  Schloss    Schlösser   castle          in ground home work
        n  Museum     Museen      museum          in ground work
        n  Dach       Dächer      roof            auf
        f  Mauer      Mauern      wall            auf
        f  Brücke     Brücken     bridge          auf ground
        f  Bühne      Bühnen      stage           auf ground
        n  Schiff     Schiffe     ship            auf ground home work
    """,
    "furniture": """
        m  Tisch      Tische      table           auf unter neben seat
        m  Küchentisch  Küchentische  kitchen table  auf unter neben seat
        m  Stuhl      Stühle      chair           auf unter neben seat
        m  Teppich    Teppiche    carpet          auf seat
        m  Schrank    Schränke    cupboard        in hinter neben opening
        m  Ofen       Öfen        stove           hinter neben seat
        f  Kiste      Kisten      box             in unter opening
        f  Tür        Türen       door            hinter neben vor opening
        n  Bett       Betten      bed             auf unter neben seat
        n  Sofa       Sofas       sofa            auf hinter neben seat
        n  Bücherregal  Bücherregale  bookshelf/bookshelves  auf neben
        n  Fenster    -           window          neben vor opening
    """,
    "drawer": """
        f  Schublade  Schubladen  drawer          in opening
    """,
    "tree": """
        m  Baum       Bäume       tree            unter hinter neben seat
    """,
}

_PRONOUN_OF_GENDER = {"m": "he", "f": "she", "n": "it"}


def _read_nouns() -> list[Noun]:
    nouns = []
    for section, table in NOUNS.items():
        for gender, german, plural, english, *classes in rows(table):
            weak, gender = gender == "w", gender.replace("w", "m")
            pronoun = _PRONOUN_OF_GENDER[gender] if section == "person" else "it"
            if override := re.search(r" \((\w+)\)", english):
                english, pronoun = english[: override.start()], override[1]
            singular, _, english_plural = english.partition("/")
            tags = frozenset([section, *" ".join(classes).split()])
            nouns.append(Noun(german, plural or german, gender, weak, singular, english_plural, pronoun, tags))
    return nouns


ALL_NOUNS = _read_nouns()


def nouns_of(classes: str) -> list[Noun]:
    """The nouns that belong to one of the classes, in the order of the tables: `nouns_of("food text")`."""
    wanted = set(classes.split())
    return [noun for noun in ALL_NOUNS if wanted & noun.classes]


# --- adjectives -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class Adjective:
    """An adjective and the classes of the nouns it may describe."""

    german: str
    english: str
    classes: frozenset[str]


_ADJECTIVES = """
    alt         old          adult animal thing room furniture text instrument tree
    jung        young        adult animal
    klein       little       child animal thing furniture drawer tree
    groß        big          animal thing room furniture tree
    dick        fat          animal
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
    schüchtern  shy          person animal
    verrückt    crazy        person animal
    wild        wild         animal
    weiß        white        animal thing furniture
    schwarz     black        animal thing furniture
    rot         red          thing furniture
    blau        blue         thing furniture
    grün        green        thing furniture
    golden      golden       thing instrument
    neu         new          thing furniture instrument text
    schön       beautiful    thing instrument room text tree
    schwer      heavy        box furniture
    kaputt      broken       machine instrument furniture
    frisch      fresh        food
    süß         sweet        baked
    warm        warm         baked cooked
    kalt        cold         cooked room
    lecker      delicious    food
    lang        long         text
    lustig      funny        text amusing
    langweilig  boring       text amusing
    spannend    exciting     tale paper
    geheim      secret       message
    dunkel      dark         room
    still       quiet        room
"""
ADJECTIVES = [Adjective(de, en, frozenset(classes.split())) for de, en, classes in rows(_ADJECTIVES)]

# How a person or an animal can feel, for "weil er müde ist". The last column says against what a feeling speaks:
# "obwohl" (although) needs a feeling that hinders.
_FEELINGS = """
    müde        tired        hinders
    krank       ill          hinders
    nervös      nervous      hinders
    wütend      angry        -
    hungrig     hungry       -
    traurig     sad          hinders
    glücklich   happy        -
    neugierig   curious      -
    verliebt    in love      -
    allein      alone        -
    gierig      greedy       -
    faul        lazy         hinders
    freundlich  friendly     -
    höflich     polite       -
    dankbar     grateful     -
    stolz       proud        -
    ängstlich   frightened   hinders
    mutig       brave        -
    fleißig     hardworking  -
"""
FEELINGS = {german: english for german, english, _ in rows(_FEELINGS)}
HINDRANCES = [german for german, _, hinders in rows(_FEELINGS) if hinders]

# Positive, comparative, and the same in English.
_COMPARISONS = """
    alt      älter      old      older
    jung     jünger     young    younger
    klug     klüger     clever   cleverer
    stark    stärker    strong   stronger
    schnell  schneller  fast     faster
    faul     fauler     lazy     lazier
    mutig    mutiger    brave    braver
    klein    kleiner    small    smaller
"""
COMPARISONS = list(rows(_COMPARISONS))
