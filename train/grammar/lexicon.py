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
        f  Geschichte  Geschichten  story         tale
        f  Zeitung    Zeitungen   newspaper       paper
        n  Gedicht    Gedichte    poem            tale
        n  Märchen    -           fairy tale      tale
        n  Buch       Bücher      book            paper
        n  Kochbuch   Kochbücher  cookbook        paper
        n  Tagebuch   Tagebücher  diary           paper
    """,
    "thing": """
        m  Schlüssel  -           key
        m  Haustürschlüssel  -    front door key
        m  Koffer     -           suitcase        box
        m  Korb       Körbe       basket          box
        m  Spiegel    -           mirror
        m  Besen      -           broom
        m  Ball       Bälle       ball
        m  Ring       Ringe       ring
        m  Schatz     Schätze     treasure
        m  Regenschirm  Regenschirme  umbrella
        m  Hut        Hüte        hat             clothes
        m  Mantel     Mäntel      coat            clothes
        m  Handschuh  Handschuhe  glove           clothes
        f  Krone      Kronen      crown           clothes
        f  Lampe      Lampen      lamp            machine
        f  Uhr        Uhren       clock           machine
        f  Armbanduhr  Armbanduhren  wristwatch   machine
        f  Kerze      Kerzen      candle
        f  Tasse      Tassen      cup
        f  Teekanne   Teekannen   teapot
        f  Blume      Blumen      flower
        f  Schatzkarte  Schatzkarten  treasure map
        f  Zahnbürste  Zahnbürsten  toothbrush
        n  Bild       Bilder      picture
        n  Kissen     -           pillow
        n  Messer     -           knife/knives
        n  Schwert    Schwerter   sword
        n  Fernrohr   Fernrohre   telescope       machine
        n  Fahrrad    Fahrräder   bicycle         machine
        n  Paket      Pakete      parcel          box
        n  Kleid      Kleider     dress           clothes
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
        m  Tisch      Tische      table           auf unter neben
        m  Küchentisch  Küchentische  kitchen table  auf unter neben
        m  Stuhl      Stühle      chair           auf unter neben
        m  Teppich    Teppiche    carpet          auf
        m  Schrank    Schränke    cupboard        in hinter neben opening
        m  Ofen       Öfen        stove           hinter neben
        m  Baum       Bäume       tree            unter hinter neben
        f  Kiste      Kisten      box             in unter opening
        f  Schublade  Schubladen  drawer          in opening
        f  Tür        Türen       door            hinter neben vor opening
        n  Bett       Betten      bed             auf unter neben
        n  Sofa       Sofas       sofa            auf hinter neben
        n  Bücherregal  Bücherregale  bookshelf/bookshelves  auf neben
        n  Fenster    -           window          neben vor opening
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
    alt         old          adult animal thing room furniture text instrument
    jung        young        adult animal
    klein       little       child animal thing furniture box
    groß        big          animal thing room furniture
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
    wild        wild         animal
    weiß        white        animal thing furniture
    schwarz     black        animal thing furniture
    rot         red          thing furniture
    blau        blue         thing furniture
    grün        green        thing furniture
    golden      golden       thing instrument
    neu         new          thing furniture instrument text
    schön       beautiful    thing instrument room text
    schwer      heavy        box furniture
    kaputt      broken       machine instrument furniture
    frisch      fresh        food
    süß         sweet        baked
    warm        warm         baked cooked
    kalt        cold         cooked room
    lecker      delicious    food
    lang        long         text
    lustig      funny        text
    langweilig  boring       text
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

# --- determiners and pronouns -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class Determiner:
    """`declension` says which endings it takes and which the adjective after it: "der" has its own forms, "dieser"
    the same endings; "ein" has gaps, which a strong adjective ending fills; "strong" leaves all to the adjective but
    inflects (viele); "bare" has no endings at all (zwei, or no word)."""

    german: str
    declension: str
    english: str
    english_plural: str
    definite: bool = True


DEFINITE = Determiner("d", "der", "the", "the")
INDEFINITE = Determiner("ein", "ein", "a", "", definite=False)
BARE = Determiner("", "bare", "", "", definite=False)  # the plural of ein: Äpfel
INSTRUMENT = Determiner("", "bare", "the", "the", definite=False)  # Klavier spielen, "to play the piano"
THIS = Determiner("dies", "dieser", "this", "these")
WHICH = Determiner("welch", "dieser", "which", "which")
EVERY = Determiner("jed", "dieser", "every", "")
ALL = Determiner("all", "dieser", "", "all the")
MANY = Determiner("viel", "strong", "", "many", definite=False)
NO = Determiner("kein", "ein", "no", "no")  # in a subject: "No pirate sleeps."
NOT_A = Determiner("kein", "ein", "a", "any", definite=False)  # in an object: "doesn't read a book"
NUMBERS = [
    Determiner(german, "bare", "", english, definite=False)
    for german, english in [("zwei", "two"), ("drei", "three"), ("vier", "four"), ("fünf", "five"), ("sieben", "seven")]
]


@dataclass(frozen=True, eq=False, slots=True)
class Pronoun:
    """A personal pronoun. `person` counts ich, du, er, wir, ihr, sie from 0 to 5."""

    person: int
    german_cases: tuple[str, str, str]  # nominative, accusative, dative
    english_subject: str
    english_object: str
    possessive: Determiner


_PRONOUNS = """
    ich  mich  mir    mein  I     me    my
    du   dich  dir    dein  you   you   your
    er   ihn   ihm    sein  he    him   his
    wir  uns   uns    unser  we   us    our
    ihr  euch  euch   euer  you   you   your
    sie  sie   ihnen  ihr   they  them  their
    sie  sie   ihr    ihr   she   her   her
    es   es    ihm    sein  it    it    its
"""


def _pronoun(person: int, cells: list[str]) -> Pronoun:
    nominative, accusative, dative, possessive, subject, object_, english_possessive = cells
    owner = Determiner(possessive, "ein", english_possessive, english_possessive)
    return Pronoun(person, (nominative, accusative, dative), subject, object_, owner)


PRONOUNS = [_pronoun(min(i, 5) if i < 6 else 2, cells) for i, cells in enumerate(rows(_PRONOUNS))]

# The pronoun that takes up a noun: German goes by grammatical gender, English by what is meant (sie, die Katze: it).
_GERMAN_PRONOUN = {"m": PRONOUNS[2], "f": PRONOUNS[6], "n": PRONOUNS[7]}
_ENGLISH_PRONOUN = {"he": PRONOUNS[2], "she": PRONOUNS[6], "it": PRONOUNS[7]}


def _mixed_pronoun(gender: str, english: str) -> Pronoun:
    german, other = _GERMAN_PRONOUN[gender], _ENGLISH_PRONOUN[english]
    owner = Determiner(german.possessive.german, "ein", other.possessive.english, other.possessive.english)
    return Pronoun(2, german.german_cases, other.english_subject, other.english_object, owner)


PRONOUN_FOR = {(gender, english): _mixed_pronoun(gender, english) for gender in "mfn" for english in _ENGLISH_PRONOUN}
WHO = Pronoun(2, ("wer", "wen", "wem"), "who", "who", PRONOUNS[2].possessive)
