"""The verbs of both languages as one table: their irregular forms and the kinds of words that go with them."""

from __future__ import annotations

from dataclasses import dataclass

from .lexicon import Noun, nouns_of, rows


@dataclass(frozen=True, eq=False, slots=True)
class Slot:
    """One complement of a verb.

    `case` is accusative or dative. `preposition` is German, `english` the English one ("" for none). `kind` is
    "object" for a noun of `nouns`, "place" (where: dative) or "goal" (where to: accusative) for a room or furniture.
    """

    kind: str
    case: str
    preposition: str
    english: str
    nouns: tuple[Noun, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Verb:
    """A verb. `infinitive` is without the separable `prefix`; `third` and `past` are its forms with er and es.

    `english` and `english_past` are without the `particle` (wake up). A `state` (know, love) has no progressive.
    """

    infinitive: str
    prefix: str
    third: str
    past: str
    participle: str
    auxiliary: str
    english: str
    english_past: str
    particle: str
    subjects: tuple[Noun, ...]
    slots: tuple[Slot, ...]
    manners: tuple[str, ...]
    state: bool

    @property
    def name(self) -> str:
        """The infinitive with its prefix: aufwachen."""
        return self.prefix + self.infinitive


# Infinitive ("|" after a separable prefix), er-form, past, participle ("ist" when the perfect takes sein); "-" for what
# is regular. English (base/past, "+" before a particle), classes of the subject, complements: acc:food (an object),
# dat:person, auf+acc=for:person (with a preposition, and the English one), place:room, goal:room, auf+goal:room; "?"
# marks what may be left out.
_ACTIONS = """
    essen         isst     aß        gegessen         eat/ate               living  acc:food
    fressen       frisst   fraß      gefressen        devour                animal  acc:food
    trinken       -        trank     getrunken        drink/drank           person  acc:drink
    kochen        -        -         -                cook                  person  acc:soup,cooked
    backen        -        -         gebacken         bake                  person  acc:baked
    probieren     -        -         -                taste                 person  acc:food,soup,drink
    lesen         liest    las       gelesen          read/read             person  acc:text
    schreiben     -        schrieb   geschrieben      write/wrote           person  acc:message,tale
    malen         -        -         -                paint                 person  acc:animal,furniture
    suchen        -        -         -                look+for              living  acc:found,animal,clothes
    finden        -        fand      gefunden         find/found            living  acc:found,food
    kaufen        -        -         -                buy/bought            person  acc:goods,food
    verkaufen     -        -         -                sell/sold             person  acc:goods
    stehlen       stiehlt  stahl     gestohlen        steal/stole           person  acc:goods,food
    verstecken    -        -         -                hide/hid              living  acc:found,food
    tragen        trägt    trug      getragen         carry                 person  acc:box,instrument
    zeichnen      -        -         -                draw/drew             person  acc:animal,thing
    reparieren    -        -         -                repair                person  acc:machine,furniture,instrument
    putzen        -        -         -                clean                 person  acc:room,furniture,instrument
    streicheln    -        -         -                stroke                person  acc:animal
    füttern       -        -         -                feed/fed              person  acc:animal
    fangen        fängt    fing      gefangen         catch/caught          living  acc:animal
    jagen         -        -         -                chase                 animal  acc:animal
    rufen         -        rief      gerufen          call                  person  acc:living
    besuchen      -        -         -                visit                 person  acc:person,room
    begrüßen      -        -         -                greet                 person  acc:person
    fragen        -        -         -                ask                   person  acc:person
    beobachten    -        -         -                watch                 living  acc:living
    retten        -        -         -                rescue                living  acc:living
    spielen       -        -         -                play                  person  acc:instrument
    auf|machen    -        -         -                open                  person  acc:opening,lid
    zu|machen     -        -         -                close                 person  acc:opening,lid
    auf|räumen    -        -         -                tidy+up               person  acc:tidy
    auf|essen     isst     aß        gegessen         eat+up/ate            living  acc:food,soup
    an|ziehen     -        zog       gezogen          put+on/put            person  acc:clothes
    mit|bringen   -        brachte   gebracht         bring+along/brought   person  acc:food,instrument,text
    an|rufen      -        rief      gerufen          phone                 person  acc:person
    ein|laden     lädt     lud       geladen          invite                person  acc:person
    auf|wecken    -        -         -                wake+up/woke          living  acc:living
    an|schauen    -        -         -                look+at               living  acc:living,clothes,machine
    weg|werfen    wirft    warf      geworfen         throw+away/threw      person  acc:text,clothes,breakable
    ab|schließen  -        schloss   geschlossen      lock                  person  acc:room
    helfen        hilft    half      geholfen         help                  living  dat:living
    danken        -        -         -                thank                 person  dat:person
    folgen        -        -         ist -            follow                living  dat:living
    antworten     -        -         -                answer                person  dat:person
    zu|hören      -        -         -                listen+to             living  dat:person
    zu|schauen    -        -         -                watch                 living  dat:living
    geben         gibt     gab       gegeben          give/gave             person  dat:person acc:goods,food,text
    schenken      -        -         -                give/gave             person  dat:person acc:clothes,instrument
    zeigen        -        -         -                show                  person  dat:person acc:thing,text,animal
    bringen       -        brachte   gebracht         bring/brought         person  dat:person acc:thing,food,text
    schicken      -        -         -                send/sent             person  dat:person acc:message,box,clothes
    leihen        -        lieh      geliehen         lend/lent             person  dat:person acc:goods,paper
    erzählen      -        -         -                tell/told             person  dat:person acc:tale
    vor|lesen     liest    las       gelesen          read/read             person  dat:person acc:text
    warten        -        -         -                wait                  living  auf+acc=for:living
    denken        -        dachte    gedacht          think/thought         person  an+acc=about:living
    träumen       -        -         -                dream                 living  von+dat=about:living,food
    sprechen      spricht  sprach    gesprochen       talk                  person  mit+dat=to:living
    spielen       -        -         -                play                  child,animal  mit+dat=with:living,thing
    tanzen        -        -         -                dance                 person  mit+dat=with:person
    lachen        -        -         -                laugh                 person  über+acc=at:living,tale
    schlafen      schläft  schlief   geschlafen       sleep/slept           living  place?:room,furniture
    schnarchen    -        -         -                snore                 living  place?:room
    weinen        -        -         -                cry                   person  place?:room
    singen        -        sang      gesungen         sing/sang             person  place?:room
    tanzen        -        -         -                dance                 living  place?:room
    arbeiten      -        -         -                work                  person  place:room
    sitzen        -        saß       gesessen         sit/sat               living  place:furniture,room
    stehen        -        stand     gestanden        stand/stood           living  place:furniture,room
    liegen        -        lag       gelegen          lie/lay               animal,text,clothes  place:furniture
    auf|stehen    -        stand     ist gestanden    get+up/got            living  -
    auf|wachen    -        -         ist -            wake+up/woke          living  -
    ein|schlafen  schläft  schlief   ist geschlafen   fall+asleep/fell      living  place?:room,furniture
    weg|laufen    läuft    lief      ist gelaufen     run+away/ran          living  -
    zurück|kommen  -        kam       ist gekommen     come+back/came        living  -
    gehen         -        ging      ist gegangen     go/went               living  goal:room
    laufen        läuft    lief      ist gelaufen     run/ran               living  goal:room
    schleichen    -        schlich   ist geschlichen  sneak                 living  goal:room
    springen      -        sprang    ist gesprungen   jump                  living  auf+goal:furniture,room
    klettern      -        -         ist -            climb                 living  auf+goal:furniture,room
    stellen       -        -         -                put/put               person  acc:thing goal:furniture
    legen         -        -         -                put/put               person  acc:text,clothes,food goal:furniture
    werfen        wirft    warf      geworfen         throw/threw           person  acc:clothes,food goal:furniture
    tragen        trägt    trug      getragen         carry                 person  acc:box,instrument,animal goal:room
"""
_STATES = """
    kennen        -        kannte    gekannt          know/knew             person  acc:person,tale,animal
    lieben        -        -         -                love                  person  acc:living,instrument
    haben         hat      hatte     -                have/had              person  acc:goods,animal
    brauchen      -        -         -                need                  person  acc:goods
    mögen         mag      mochte    gemocht          like                  living  acc:animal,food,soup,drink
    hassen        -        -         -                hate                  person  acc:animal,soup,drink
    sehen         sieht    sah       gesehen          see/saw               living  acc:living,thing,furniture
    hören         -        -         -                hear/heard            living  acc:living,instrument
    verstehen     -        verstand  verstanden       understand/understood  person  acc:person,text
    vergessen     vergisst  vergaß    vergessen        forget/forgot         person  acc:found,clothes,text
    wohnen        -        -         -                live                  living  place:room
    gehören       -        -         -                belong                goods,animal  dat=to:person
    gefallen      gefällt  gefiel    gefallen         please                thing,text,instrument,room  dat:person
    vertrauen     -        -         -                trust                 living  dat:living
    glauben       -        -         -                believe               person  dat:person
"""

# How an action may be done.
MANNERS = {
    german: (english, verbs.split(","))
    for german, english, verbs in rows("""
    schnell     quickly     essen,fressen,trinken,verstecken,zeichnen,reparieren,fangen,aufräumen,aufessen,einschlafen
    langsam     slowly      essen,trinken,lesen,schreiben,tragen,anziehen,folgen,arbeiten,aufstehen,aufwachen,gehen
    heimlich    secretly    essen,probieren,schreiben,kaufen,verstecken,füttern,besuchen,beobachten,anrufen,schicken
    geduldig    patiently   kochen,malen,suchen,zeichnen,reparieren,füttern,helfen,zuhören,zuschauen,erzählen,warten
    fröhlich    cheerfully  backen,malen,putzen,aufräumen,helfen,erzählen,spielen,tanzen,lachen,singen,springen
    vorsichtig  carefully   probieren,tragen,streicheln,aufmachen,aufwecken,schleichen,klettern,stellen,legen
    leise       quietly     lesen,fragen,spielen,aufmachen,zumachen,vorlesen,sprechen,weinen,singen,schleichen
    laut        loudly      rufen,begrüßen,spielen,vorlesen,lachen,schnarchen,weinen,singen
    nervös      nervously   suchen,rufen,fragen,anrufen,antworten,zuhören,zuschauen,warten,sitzen
    stolz       proudly     tragen,anziehen,mitbringen,zeigen,stehen
    wütend      angrily     jagen,zumachen,wegwerfen,antworten,werfen
    höflich     politely    begrüßen,fragen,einladen,helfen,danken,antworten
""")
}
FEELINGS = dict(
    rows("""
    müde       tired
    hungrig    hungry
    neugierig  curious
    traurig    sad
    wütend     angry
    glücklich  happy
    krank      sick
""")
)
# What a feeling makes one do (weil), and what one does in spite of it (obwohl).
REASONS = {
    feeling: set(verbs.split(","))
    for feeling, verbs in rows("""
    müde       schlafen,einschlafen,schnarchen,sitzen,liegen
    hungrig    essen,fressen,kochen,backen,stehlen,aufessen,aufwachen,jagen,fangen
    neugierig  lesen,beobachten,fragen,anschauen,folgen,besuchen,aufmachen,schleichen,zuhören,zuschauen
    traurig    weinen,denken,anrufen,sitzen,schreiben,weglaufen,träumen
    wütend     werfen,wegwerfen,zumachen,rufen,weglaufen,aufwecken,jagen
    glücklich  singen,tanzen,lachen,einladen,schenken,springen,spielen,backen,danken
    krank      schlafen,liegen,anrufen,zurückkommen,einschlafen
""")
}
HINDRANCES = {
    feeling: set(verbs.split(","))
    for feeling, verbs in rows("""
    müde       arbeiten,tanzen,aufräumen,helfen,lesen,klettern,putzen,tragen,malen,springen,spielen
    hungrig    warten,schlafen,singen,arbeiten,geben,verkaufen
    neugierig  schlafen,weglaufen,warten
    traurig    singen,tanzen,lachen,spielen,einladen,backen
    wütend     helfen,danken,zuhören,warten,schenken,begrüßen
    krank      arbeiten,tanzen,gehen,aufstehen,singen,putzen,besuchen,springen
""")
}

_GROUPS = {"living": "person,animal", "goods": "thing,clothes,instrument"}
_CASES = {"acc": "accusative", "dat": "dative"}


def _read_slots(text: str) -> list[tuple[Slot, ...]]:
    """All ways to fill the complements: with what may be left out, and without it."""
    ways: list[tuple[Slot, ...]] = [()]
    for part in text.split():
        head, _, classes = part.partition(":")
        head, _, english = head.partition("=")
        preposition, _, kind = head.removesuffix("?").rpartition("+")
        nouns = _nouns(classes)
        if kind in _CASES:
            slot = Slot("object", _CASES[kind], preposition, english, nouns)
        else:
            case = "dative" if kind == "place" else "accusative"
            slot = Slot(
                kind, case, preposition, "", tuple(n for n in nouns if not preposition or preposition in n.classes)
            )
        without = ways if head.endswith("?") else []
        ways = without + [(*way, slot) for way in ways]
    return ways


def _nouns(classes: str) -> tuple[Noun, ...]:
    for group, members in _GROUPS.items():
        classes = classes.replace(group, members)
    return tuple(nouns_of(classes.replace(",", " ")))


def stem(infinitive: str) -> str:
    """essen -> ess, füttern -> fütter."""
    return infinitive[:-2] if infinitive.endswith("en") else infinitive[:-1]


def needs_e(stem: str) -> bool:
    """Whether an e stands before the endings -t and -te: arbeitet, zeichnete."""
    return stem.endswith(("t", "d", "chn", "ffn"))


def regular_forms(infinitive: str) -> tuple[str, str, str]:
    """The er-form, the past and the participle of a weak verb: arbeitet, arbeitete, gearbeitet."""
    root = stem(infinitive) + ("e" if needs_e(stem(infinitive)) else "")
    bare = infinitive.startswith(("be", "ver", "er", "ge")) or infinitive.endswith("ieren")
    return root + "t", root + "te", ("" if bare else "ge") + root + "t"


def _past_of(english: str) -> str:
    if english.endswith("e"):
        return english + "d"
    if english.endswith("y") and english[-2] not in "aeiou":
        return english[:-1] + "ied"
    return english + "ed"


def _read_verbs(table: str, state: bool) -> list[Verb]:
    verbs = []
    for infinitive, third, past, participle, english, subjects, slots in rows(table):
        prefix, _, german = infinitive.rpartition("|")
        auxiliary = "sein" if participle.startswith("ist") else "haben"
        regular = regular_forms(german)
        participle = participle.removeprefix("ist ").replace("-", "") or regular[2]
        words, _, english_past = english.partition("/")
        base, _, particle = words.partition("+")
        for way in _read_slots(slots):
            verbs.append(
                Verb(
                    infinitive=german,
                    prefix=prefix,
                    third=third or regular[0],
                    past=past or regular[1],
                    participle=prefix + participle,
                    auxiliary=auxiliary,
                    english=base,
                    english_past=english_past or _past_of(base),
                    particle=particle,
                    subjects=_nouns(subjects),
                    slots=way,
                    manners=tuple(word for word, (_, names) in MANNERS.items() if prefix + german in names),
                    state=state,
                )
            )
    return verbs


ACTIONS = _read_verbs(_ACTIONS, state=False)
STATES = _read_verbs(_STATES, state=True)


@dataclass(frozen=True, eq=False, slots=True)
class Modal:
    """A modal verb; `third` and `past` are its forms with er."""

    infinitive: str
    third: str
    past: str
    english: str


MODALS = [
    Modal(*cells)
    for cells in rows("""
    können  kann  konnte  can
    müssen  muss  musste  have to
    wollen  will  wollte  want to
    dürfen  darf  durfte  be allowed to
    sollen  soll  sollte  be supposed to
""")
]
# The verbs of saying and thinking that a dass-clause follows.
SAYING = _read_verbs(
    """
    glauben       -        -         -                think/thought         person  -
    hoffen        -        -         -                hope                  person  -
    wissen        weiß     wusste    gewusst          know/knew             person  -
    sagen         -        -         -                say/said              person  -
    träumen       -        -         -                dream/dreamed         person  -
""",
    state=True,
)
