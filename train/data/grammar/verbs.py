"""The verbs of the grammar and what each of them needs, as tables."""

from __future__ import annotations

from dataclasses import dataclass

from .lexicon import Noun, nouns_of, rows


@dataclass(frozen=True, eq=False, slots=True)
class Slot:
    """A place in a verb's frame: `case` with an optional `preposition`, and the nouns that fit there.

    Case is "accusative" or "dative"; "goal" (accusative: into the forest) and "place" (dative: in the forest) are
    the two readings of a two-way preposition, which comes with the noun unless the slot insists on one. "instrument"
    is an accusative with no article: Klavier spielen.
    """

    case: str
    preposition: str
    nouns: list[Noun]
    optional: bool


@dataclass(frozen=True, eq=False, slots=True)
class Verb:
    """`german` without the separable `prefix`. Empty `third` and `participle` mean: regular."""

    german: str
    prefix: str
    third: str
    participle: str
    auxiliary: str  # haben or sein
    english: str  # principal parts: eat/ate/eaten
    particle: str  # "up", follows a pronoun object: wake him up
    preposition: str  # "for", stays before the object: look for him
    subjects: list[Noun]
    slots: list[Slot]
    feelings: list[str]
    manners: list[str]

    @property
    def name(self) -> str:
        """The infinitive as a dictionary lists it."""
        return self.prefix + self.german


# The dictionary: infinitive (prefix|verb), third person if its stem changes, participle if strong ("ist" before it: the
# auxiliary is sein), English principal parts, preposition or |particle.
_FORMS = """
    essen           isst      gegessen          eat/ate/eaten
    stehlen         stiehlt   gestohlen         steal/stole/stolen
    beobachten      -         -                 watch
    sehen           sieht     gesehen           see/saw/seen
    folgen          -         ist -             follow
    warten          -         -                 wait for
    träumen         -         -                 dream of
    schlafen        schläft   geschlafen        sleep/slept/slept
    schnarchen      -         -                 snore
    auf|stehen      -         ist gestanden     get/got/got up
    auf|wachen      -         ist -             wake/woke/woken up
    ein|schlafen    schläft   ist geschlafen    fall/fell/fallen asleep
    weg|laufen      läuft     ist gelaufen      run/ran/run away
    zurück|kommen   -         ist gekommen      come/came/come back
    gehen           -         ist gegangen      go/went/gone
    laufen          läuft     ist gelaufen      run/ran/run
    schleichen      -         ist geschlichen   sneak
    klettern        -         ist -             climb
    springen        -         ist gesprungen    jump
    sitzen          -         gesessen          sit/sat/sat
    backen          backt     gebacken          bake
    kochen          -         -                 cook
    probieren       -         -                 taste
    lesen           liest     gelesen           read/read/read
    schreiben       -         geschrieben       write/wrote/written
    suchen          -         -                 look for
    finden          -         gefunden          find/found/found
    verlieren       -         verloren          lose/lost/lost
    kaufen          -         -                 buy/bought/bought
    verkaufen       -         -                 sell/sold/sold
    verstecken      -         -                 hide/hid/hidden
    tragen          trägt     getragen          carry
    reparieren      -         -                 repair
    putzen          -         -                 clean
    malen           -         -                 paint
    zeichnen        -         -                 draw/drew/drawn
    bewundern       -         -                 admire
    besuchen        -         -                 visit
    füttern         -         -                 feed/fed/fed
    fangen          fängt     gefangen          catch/caught/caught
    streicheln      -         -                 stroke
    fragen          -         -                 ask
    spielen         -         -                 play
    auf|machen      -         -                 open
    zu|machen       -         -                 close
    auf|räumen      -         -                 tidy|up
    ein|packen      -         -                 pack
    aus|packen      -         -                 unpack
    weg|werfen      wirft     geworfen          throw/threw/thrown|away
    auf|setzen      -         -                 put/put/put|on
    an|ziehen       -         gezogen           put/put/put|on
    mit|bringen     -         gebracht          bring/brought/brought|along
    an|rufen        -         gerufen           call
    ein|laden       lädt      geladen           invite
    auf|wecken      -         -                 wake/woke/woken|up
    ab|holen        -         -                 pick|up
    helfen          hilft     geholfen          help
    danken          -         -                 thank
    antworten       -         -                 answer
    zu|hören        -         -                 listen to
    geben           gibt      gegeben           give/gave/given
    schenken        -         -                 give/gave/given
    zeigen          -         -                 show/showed/shown
    bringen         -         gebracht          bring/brought/brought
    schicken        -         -                 send/sent/sent
    leihen          -         geliehen          lend/lent/lent
    erzählen        -         -                 tell/told/told
    vor|lesen       liest     gelesen           read/read/read
    denken          -         gedacht           think/thought/thought about
    sprechen        spricht   gesprochen        talk to
    lachen          -         -                 laugh at
    weinen          -         -                 cry
    singen          -         gesungen          sing/sang/sung
    tanzen          -         -                 dance
    arbeiten        -         -                 work
    stellen         -         -                 put/put/put
    legen           -         -                 put/put/put
    werfen          wirft     geworfen          throw/threw/thrown
    fliegen         -         ist geflogen      fly/flew/flown
    liegen          -         gelegen           lie/lay/lain
    stehen          -         gestanden         stand/stood/stood
    kennen          -         gekannt           know/knew/known
    lieben          -         -                 love
    haben           -         gehabt            have/had/had
    brauchen        -         -                 need
    mögen           mag       gemocht           like
    hassen          -         -                 hate
    wohnen          -         -                 live
    gehören         -         gehört            belong to
    gefallen        gefällt   gefallen          like
    schmecken       -         -                 like
    fehlen          -         -                 miss
    glauben         -         -                 think/thought/thought
    hoffen          -         -                 hope
    wissen          weiß      gewusst           know/knew/known
    sagen           -         -                 say/said/said
    vermuten        -         -                 suspect
"""

# What people and animals do, by the classes of the subject: verb, slots, feelings that explain it, manners. A slot is
# case:classes or preposition+case:classes; a "?" makes it optional.
_ACTIONS = {
    "person animal": """
        essen          acc:food place?:room                hungrig/gierig           heimlich/langsam/schnell
        stehlen        acc:food                            gierig/hungrig           heimlich/leise/schnell
        beobachten     acc:person/animal                   neugierig/nervös         leise/geduldig
        sehen          acc:person/animal place?:room       -                        -
        folgen         dat:person/animal                   neugierig                leise/langsam
        warten         auf+acc:person/animal place?:room   neugierig/nervös         geduldig/nervös
        träumen        von+dat:animal/food/instrument      hungrig/müde             -
        schlafen       place?:room/seat                    müde/krank/faul          friedlich
        schnarchen     place?:room                         müde/krank               laut/leise
        aufstehen      -                                   nervös/neugierig/hungrig  langsam/schnell
        aufwachen      place?:seat/room                    hungrig/nervös           langsam
        einschlafen    place?:seat/room                    müde/krank               schnell
        weglaufen      -                                   ängstlich/nervös         schnell/heimlich/leise
        zurückkommen   -                                   hungrig/müde             langsam/leise
        gehen          goal:ground                         neugierig/traurig/allein  langsam
        laufen         goal:ground                         ängstlich/nervös         schnell
        schleichen     goal:ground                         neugierig/hungrig        leise/langsam/vorsichtig
        klettern       auf+goal:room/furniture             mutig/neugierig          vorsichtig/langsam/schnell
        springen       auf+goal:room/furniture             mutig/glücklich          fröhlich/wütend
        sitzen         place:room/seat                     müde/faul/traurig        friedlich/stolz/nervös
    """,
    "person": """
        backen         acc:baked                           hungrig/verliebt         fröhlich/heimlich
        kochen         acc:cooked                          hungrig/fleißig          fröhlich/schnell
        probieren      acc:food                            hungrig/neugierig        vorsichtig/heimlich
        lesen          acc:text place?:room                neugierig/allein         leise/heimlich/laut
        schreiben      acc:text                            verliebt/allein          langsam/heimlich
        suchen         acc:thing/text/animal place?:room   neugierig/nervös         leise/nervös/geduldig
        finden         acc:thing/text place?:furniture/drawer/room  fleißig/neugierig        schnell
        verlieren      acc:thing place?:room               nervös/müde              -
        kaufen         acc:thing/text/instrument/food      glücklich/verliebt       heimlich/schnell
        verkaufen      acc:thing/instrument/animal         gierig/traurig           heimlich/schnell
        verstecken     acc:thing/text place?:furniture/drawer  nervös/gierig            heimlich/schnell/nervös
        tragen         acc:box/instrument/furniture        freundlich/fleißig       vorsichtig/langsam/geduldig
        reparieren     acc:machine/instrument/furniture    fleißig/freundlich       geduldig/vorsichtig/langsam
        putzen         acc:thing/furniture/instrument      fleißig/nervös           geduldig/schnell/fröhlich
        malen          acc:animal/room place?:room         verliebt/glücklich       langsam/geduldig/fröhlich
        zeichnen       acc:animal/person                   glücklich/fleißig        langsam/vorsichtig
        bewundern      acc:person/thing/instrument         neugierig/höflich        -
        besuchen       acc:person place?:home/work         freundlich/allein        -
        füttern        acc:animal                          freundlich/fleißig       geduldig/vorsichtig
        fangen         acc:animal place?:room              mutig/neugierig          vorsichtig/schnell
        streicheln     acc:animal                          freundlich/glücklich     vorsichtig/geduldig
        fragen         acc:person                          neugierig/höflich        höflich/vorsichtig/wütend
        spielen        instrument:instrument place?:room   glücklich/allein         laut/leise/fröhlich
        aufmachen      acc:opening                         neugierig/mutig          leise/vorsichtig/langsam
        zumachen       acc:opening                         nervös/ängstlich         leise/schnell/wütend
        aufräumen      acc:tidy                            fleißig/nervös           schnell/fröhlich/langsam
        einpacken      acc:thing/text                      fleißig/nervös           schnell/heimlich
        auspacken      acc:box                             neugierig/glücklich      vorsichtig/langsam
        wegwerfen      acc:thing/text/food                 wütend/traurig           wütend/heimlich
        aufsetzen      acc:headgear                        glücklich/stolz          schnell/stolz
        anziehen       acc:clothes                         glücklich/nervös         schnell/stolz
        mitbringen     acc:thing/food/instrument           freundlich/dankbar       -
        anrufen        acc:person                          nervös/allein            heimlich
        einladen       acc:person                          freundlich/allein        höflich
        aufwecken      acc:person/animal                   nervös/allein            vorsichtig/leise/wütend
        abholen        acc:person/box                      freundlich/höflich       -
        helfen         dat:person/animal                   freundlich/dankbar       geduldig/heimlich/fröhlich
        danken         dat:person                          höflich/dankbar          höflich
        antworten      dat:person                          höflich/freundlich       höflich/wütend/schnell
        zuhören        dat:person                          neugierig/höflich        geduldig/höflich
        geben          dat:person acc:thing/text/food      freundlich/dankbar       heimlich/stolz
        schenken       dat:person acc:thing/instrument/animal  freundlich/dankbar       -
        zeigen         dat:person acc:thing/text/room      stolz/freundlich         stolz/heimlich
        bringen        dat:person acc:thing/food/text      freundlich/höflich       schnell/höflich
        schicken       dat:person acc:text/thing           freundlich/dankbar       heimlich
        leihen         dat:person acc:machine/clothes/headgear/paper/instrument  freundlich/höflich  -
        erzählen       dat:person acc:story/secret         glücklich/freundlich     leise/geduldig/fröhlich
        vorlesen       dat:person acc:text                 freundlich/glücklich     leise/laut/geduldig
        denken         an+acc:person                       allein/dankbar           -
        sprechen       mit+dat:person place?:room          freundlich/neugierig     leise/höflich/heimlich
        lachen         über+acc:person/animal/amusing      glücklich                laut/leise/fröhlich
        weinen         place?:room                         traurig/allein           laut/leise
        singen         place?:room                         glücklich/verliebt       laut/leise/fröhlich
        tanzen         mit?+dat:person/animal place?:room  glücklich                fröhlich/langsam
        arbeiten       place?:work                         fleißig                  geduldig/langsam/fröhlich
        stellen        acc:upright goal:furniture          freundlich/fleißig       vorsichtig/leise
        legen          acc:text/flat goal:furniture/drawer  nervös/müde              vorsichtig/heimlich/schnell
        werfen         acc:clothes/headgear/food/paper goal:furniture  wütend/faul           wütend
        stehen         place:room                          nervös/stolz             -
    """,
    "animal": """
        suchen         acc:food                            hungrig/gierig           leise/geduldig
        liegen         place:seat                          müde/krank               friedlich
    """,
    "flier": """
        fliegen        goal:room                           neugierig/glücklich      schnell/leise
    """,
    "text flat": """
        liegen         place:furniture/drawer              -                        -
    """,
    "upright": """
        stehen         place:furniture/room                -                        -
    """,
}

# States have neither a progressive nor an adverb of time: verb, subjects, slots.
_STATES = """
    kennen      person                          acc:person/animal/tale
    lieben      person                          acc:animal/instrument/tale
    haben       person                          acc:thing/instrument/animal
    brauchen    person                          acc:thing/instrument
    mögen       person animal                   acc:animal/food
    hassen      person                          acc:animal/instrument
    wohnen      person animal                   place:home
    gehören     thing animal instrument text    dat:person
"""
# What is the object to German is the subject to English: der Hut gefällt der Hexe, the witch likes the hat.
_TURNED = """
    gefallen    thing text instrument room      dat:person
    schmecken   food                            dat:person/animal
    fehlen      person animal thing             dat:person
"""


def _slot(text: str) -> Slot:
    kind, _, classes = text.partition(":")
    optional = "?" in kind
    preposition, _, case = kind.replace("?", "").rpartition("+")
    case = {"acc": "accusative", "dat": "dative"}.get(case, case)
    nouns = _classes(classes)
    if case == "goal" and preposition:
        nouns = [noun for noun in nouns if preposition in noun.classes]
    return Slot(case, preposition, nouns, optional)


def _classes(text: str) -> list[Noun]:
    return nouns_of(text.replace("/", " "))


def _words(cell: str) -> list[str]:
    return cell.split("/") if cell else []


def _verb(name: str, subjects: str, slots: str = "", feelings: str = "", manners: str = "") -> Verb:
    """Join what the tables say about a verb."""
    prefix, german, third, participle, english = _DICTIONARY[name]
    auxiliary = "sein" if participle.startswith("ist ") else "haben"
    participle = participle.removeprefix("ist ").replace("-", "")
    parts, _, particle = english.partition("|")
    parts, _, preposition = parts.partition(" ")
    frame = [_slot(slot) for slot in slots.split()]
    return Verb(
        german, prefix, third, participle, auxiliary, parts, particle, preposition,
        nouns_of(subjects), frame, _words(feelings), _words(manners),
    )  # fmt: skip


_DICTIONARY: dict[str, tuple[str, str, str, str, str]] = {}
for _infinitive, _third, _participle, _english in rows(_FORMS):
    _prefix, _, _german = _infinitive.rpartition("|")
    _DICTIONARY[_prefix + _german] = (_prefix, _german, _third, _participle, _english)

ACTIONS = [_verb(name, subjects, *cells) for subjects, table in _ACTIONS.items() for name, *cells in rows(table)]
STATES = [_verb(*cells) for cells in rows(_STATES)]
TURNED = [_verb(*cells) for cells in rows(_TURNED)]
THINKING = [_verb(name, "person") for name in ("glauben", "hoffen", "wissen", "sagen", "vermuten")]
BE = Verb("sein", "", "ist", "gewesen", "sein", "be", "", "", [], [], [], [])

# What nobody does on purpose, so nobody wants it, may do it or is told to do it; and what is over in an instant.
UNWILLED = {
    "verlieren", "finden", "sehen", "weinen", "schnarchen", "aufwachen", "einschlafen", "träumen", "denken", "liegen",
    "stehen",
}  # fmt: skip
SUDDEN = {"verlieren", "finden", "sehen"}
# What makes its object, so that nothing can have been done to it before; what one does not do with one's own things.
CREATING = {"backen", "kochen", "schreiben"}
NOT_OWN = {"stehlen", "kaufen", "haben", "brauchen", "finden"}

MANNERS = dict(
    rows("""
    fröhlich    cheerfully
    friedlich   peacefully
    geduldig    patiently
    heimlich    secretly
    höflich     politely
    langsam     slowly
    laut        loudly
    leise       quietly
    nervös      nervously
    schnell     quickly
    stolz       proudly
    vorsichtig  carefully
    wütend      angrily
""")
)


@dataclass(frozen=True, eq=False, slots=True)
class Modal:
    """A modal verb: the stems of ich/er and of the past, and an English verb with the word that links the infinitive.

    "be allowed" counts as a form of be; "can" stands for itself."""

    german: str
    singular: str
    past: str
    english: str
    link: str


MODALS = [
    Modal(*cells)
    for cells in rows("""
    können  kann   konnt  can             -
    müssen  muss   musst  have/had/had    to
    wollen  will   wollt  want            to
    dürfen  darf   durft  be              allowed to
    sollen  soll   sollt  be              supposed to
""")
]
