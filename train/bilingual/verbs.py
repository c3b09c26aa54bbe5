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


# Infinitive ("|" after a separable prefix), er-form, past, participle ("ist" when the perfect takes sein), English
# (base/past, "+" before a particle), classes of the subject, complements, manners.
# Complements: acc:food (object), dat:person, auf+acc=for:person (object with a preposition, and the English one),
# place:room, goal:room; "?" marks what may be left out.
_ACTIONS = """
    essen        isst       aß          gegessen     eat/ate       person animal  acc:food            schnell,langsam,heimlich
    fressen      frisst     fraß        gefressen    devour        animal         acc:food            schnell,heimlich
    trinken      trinkt     trank       getrunken    drink/drank   person         acc:drink           schnell,langsam
    kochen       kocht      kochte      gekocht      cook          person         acc:soup,cooked     geduldig
    backen       backt      backte      gebacken     bake          person         acc:baked           fröhlich,geduldig
    probieren    probiert   probierte   probiert     taste         person         acc:food,soup,drink  vorsichtig,heimlich
    lesen        liest      las         gelesen      read/read     person         acc:text            leise,laut,langsam
    schreiben    schreibt   schrieb     geschrieben  write/wrote   person         acc:message,tale    heimlich,langsam
    malen        malt       malte       gemalt       paint         person         acc:animal,furniture  geduldig,fröhlich
    suchen       sucht      suchte      gesucht      look+for      person animal  acc:found,animal,clothes  nervös,geduldig,heimlich
    finden       findet     fand        gefunden     find/found    person animal  acc:found,food      -
    kaufen       kauft      kaufte      gekauft      buy/bought    person         acc:thing,clothes,food,instrument,furniture  stolz,heimlich
    verkaufen    verkauft   verkaufte   verkauft     sell/sold     person         acc:thing,clothes,instrument,furniture  -
    stehlen      stiehlt    stahl       gestohlen    steal/stole   person         acc:thing,food,clothes,instrument  heimlich,leise
    verstecken   versteckt  versteckte  versteckt    hide/hid      person animal  acc:found,food      heimlich,schnell,leise
    tragen       trägt      trug        getragen     carry         person         acc:box,instrument  langsam,stolz,vorsichtig
    zeichnen     zeichnet   zeichnete   gezeichnet   draw/drew     person         acc:animal,thing    schnell,geduldig
    reparieren   repariert  reparierte  repariert    repair        person         acc:machine,breakable,furniture,instrument  geduldig,schnell
    putzen       putzt      putzte      geputzt      clean         person         acc:room,furniture,instrument  fröhlich
    streicheln   streichelt  streichelte  gestreichelt  stroke     person         acc:animal          vorsichtig
    füttern      füttert    fütterte    gefüttert    feed/fed      person         acc:animal          vorsichtig,geduldig,heimlich
    fangen       fängt      fing        gefangen     catch/caught  person animal  acc:animal          schnell
    jagen        jagt       jagte       gejagt       chase         animal         acc:animal          wütend,fröhlich
    rufen        ruft       rief        gerufen      call          person         acc:person,animal   laut,nervös
    besuchen     besucht    besuchte    besucht      visit         person         acc:person,room     heimlich
    begrüßen     begrüßt    begrüßte    begrüßt      greet         person         acc:person          höflich,laut
    fragen       fragt      fragte      gefragt      ask           person         acc:person          höflich,leise,nervös
    beobachten   beobachtet  beobachtete  beobachtet  watch        person animal  acc:person,animal   heimlich,geduldig
    retten       rettet     rettete     gerettet     rescue        person animal  acc:person,animal   stolz
    spielen      spielt     spielte     gespielt     play          person         acc:instrument      laut,leise
    auf|machen   macht      machte      gemacht      open          person         acc:opening,box     vorsichtig,leise,schnell
    zu|machen    macht      machte      gemacht      close         person         acc:opening,box     leise,wütend,laut
    auf|räumen   räumt      räumte      geräumt      tidy+up       person         acc:tidy            schnell,fröhlich
    auf|essen    isst       aß          gegessen     eat+up/ate    person animal  acc:food,soup       schnell,heimlich
    an|ziehen    zieht      zog         gezogen      put+on/put    person         acc:clothes         langsam,schnell,stolz
    mit|bringen  bringt     brachte     gebracht     bring+along/brought  person  acc:food,instrument,text  stolz
    an|rufen     ruft       rief        gerufen      phone         person         acc:person          nervös,heimlich
    ein|laden    lädt       lud         geladen      invite        person         acc:person          höflich
    auf|wecken   weckt      weckte      geweckt      wake+up/woke  person animal  acc:person,animal   laut,vorsichtig
    an|schauen   schaut     schaute     geschaut     look+at       person animal  acc:person,animal,clothes,machine  geduldig
    weg|werfen   wirft      warf        geworfen     throw+away/threw  person     acc:text,clothes,breakable  wütend,heimlich
    ab|schließen  schließt  schloss     geschlossen  lock          person         acc:room            leise
    helfen       hilft      half        geholfen     help          person animal  dat:person,animal   höflich,fröhlich,geduldig
    danken       dankt      dankte      gedankt      thank         person         dat:person          höflich,leise
    folgen       folgt      folgte      ist gefolgt  follow        person animal  dat:person,animal   leise,heimlich,langsam
    antworten    antwortet  antwortete  geantwortet  answer        person         dat:person          höflich,wütend,leise,nervös
    zu|hören     hört       hörte       gehört       listen+to     person animal  dat:person          geduldig,nervös
    zu|schauen   schaut     schaute     geschaut     watch         person animal  dat:person,animal   geduldig,nervös
    geben        gibt       gab         gegeben      give/gave     person         dat:person acc:thing,food,text,clothes  heimlich,höflich
    schenken     schenkt    schenkte    geschenkt    give/gave     person         dat:person acc:clothes,found,instrument  -
    zeigen       zeigt      zeigte      gezeigt      show          person         dat:person acc:thing,text,animal,room  stolz,heimlich
    bringen      bringt     brachte     gebracht     bring/brought  person        dat:person acc:thing,food,text  schnell,höflich
    schicken     schickt    schickte    geschickt    send/sent     person         dat:person acc:message,box,clothes  heimlich
    leihen       leiht      lieh        geliehen     lend/lent     person         dat:person acc:found,paper,instrument  -
    erzählen     erzählt    erzählte    erzählt      tell/told     person         dat:person acc:tale  leise,geduldig,fröhlich
    vor|lesen    liest      las         gelesen      read/read     person         dat:person acc:text  leise,laut,geduldig
    warten       wartet     wartete     gewartet     wait          person animal  auf+acc=for:person,animal  geduldig,nervös
    denken       denkt      dachte      gedacht      think/thought  person        an+acc=about:person,animal  -
    träumen      träumt     träumte     geträumt     dream         person animal  von+dat=about:person,animal,food  -
    sprechen     spricht    sprach      gesprochen   talk          person         mit+dat=to:person,animal  leise,höflich,heimlich
    spielen      spielt     spielte     gespielt     play          child animal   mit+dat=with:person,animal,thing  fröhlich,leise
    tanzen       tanzt      tanzte      getanzt      dance         person         mit+dat=with:person  fröhlich,langsam
    lachen       lacht      lachte      gelacht      laugh         person         über+acc=at:person,animal,tale  laut,leise,fröhlich
    schlafen     schläft    schlief     geschlafen   sleep/slept   person animal  place?:room,furniture  ruhig
    schnarchen   schnarcht  schnarchte  geschnarcht  snore         person animal  place?:room         laut,leise
    weinen       weint      weinte      geweint      cry           person         place?:room         laut,leise
    singen       singt      sang        gesungen     sing/sang     person         place?:room         laut,leise,fröhlich
    tanzen       tanzt      tanzte      getanzt      dance         person animal  place?:room         fröhlich,langsam
    arbeiten     arbeitet   arbeitete   gearbeitet   work          person         place:room          geduldig,langsam
    sitzen       sitzt      saß         gesessen     sit/sat       person animal  place:furniture,room  ruhig,nervös
    stehen       steht      stand       gestanden    stand/stood   person animal  place:furniture,room  ruhig,stolz
    liegen       liegt      lag         gelegen      lie/lay       animal text clothes  place:furniture  -
    auf|stehen   steht      stand       ist gestanden  get+up/got  person animal  -                   langsam,schnell
    auf|wachen   wacht      wachte      ist gewacht  wake+up/woke  person animal  -                   langsam
    ein|schlafen  schläft   schlief     ist geschlafen  fall+asleep/fell  person animal  place?:room,furniture  schnell
    weg|laufen   läuft      lief        ist gelaufen  run+away/ran  person animal  -                  schnell,heimlich,leise
    zurück|kommen  kommt    kam         ist gekommen  come+back/came  person animal  -                langsam,leise
    gehen        geht       ging        ist gegangen  go/went      person animal  goal:room           langsam,ruhig
    laufen       läuft      lief        ist gelaufen  run/ran      person animal  goal:room           schnell
    schleichen   schleicht  schlich     ist geschlichen  sneak     person animal  goal:room,furniture  leise,vorsichtig
    springen     springt    sprang      ist gesprungen  jump       person animal  goal:furniture,room  fröhlich,wütend
    klettern     klettert   kletterte   ist geklettert  climb      person animal  goal:furniture      vorsichtig,langsam,schnell
    stellen      stellt     stellte     gestellt     put/put       person         acc:thing goal:furniture  vorsichtig,leise
    legen        legt       legte       gelegt       lay/laid      person         acc:text,clothes,food goal:furniture  vorsichtig,heimlich,schnell
    werfen       wirft      warf        geworfen     throw/threw   person         acc:clothes,food,paper goal:furniture  wütend
    tragen       trägt      trug        getragen     carry         person         acc:box,instrument,animal goal:room  langsam,vorsichtig
"""
_STATES = """
    kennen       kennt      kannte      gekannt      know/knew     person         acc:person,tale,animal  -
    lieben       liebt      liebte      geliebt      love          person         acc:person,animal,instrument  heimlich
    haben        hat        hatte       gehabt       have/had      person         acc:thing,instrument,animal,clothes  -
    brauchen     braucht    brauchte    gebraucht    need          person         acc:thing,instrument,clothes  -
    mögen        mag        mochte      gemocht      like          person animal  acc:animal,food,soup,drink  -
    hassen       hasst      hasste      gehasst      hate          person         acc:animal,instrument,soup  -
    sehen        sieht      sah         gesehen      see/saw       person animal  acc:person,animal,thing,furniture  -
    hören        hört       hörte       gehört       hear/heard    person animal  acc:person,animal,instrument  -
    verstehen    versteht   verstand    verstanden   understand/understood  person  acc:person,text  -
    vergessen    vergisst   vergaß      vergessen    forget/forgot  person        acc:found,clothes,text  -
    wohnen       wohnt      wohnte      gewohnt      live          person animal  place:room          -
    gehören      gehört     gehörte     gehört       belong        thing animal instrument text clothes  dat=to:person  -
    gefallen     gefällt    gefiel      gefallen     please        thing text instrument room  dat:person  -
    vertrauen    vertraut   vertraute   vertraut     trust         person animal  dat:person,animal   -
    glauben      glaubt     glaubte     geglaubt     believe       person         dat:person          -
"""

_CASES = {"acc": "accusative", "dat": "dative"}


def _read_slots(text: str) -> list[tuple[Slot, ...]]:
    """All ways to fill the complements: with what may be left out, and without it."""
    ways: list[tuple[Slot, ...]] = [()]
    for part in text.split():
        head, _, classes = part.partition(":")
        head, _, english = head.partition("=")
        preposition, _, kind = head.removesuffix("?").rpartition("+")
        nouns = tuple(nouns_of(classes.replace(",", " ")))
        if kind in _CASES:
            slot = Slot("object", _CASES[kind], preposition, english, nouns)
        else:
            slot = Slot(kind, "dative" if kind == "place" else "accusative", "", "", nouns)
        without = ways if head.endswith("?") else []
        ways = without + [(*way, slot) for way in ways]
    return ways


def _past_of(english: str) -> str:
    if english.endswith("e"):
        return english + "d"
    if english.endswith("y") and english[-2] not in "aeiou":
        return english[:-1] + "ied"
    return english + "ed"


def _read_verbs(table: str, state: bool) -> list[Verb]:
    verbs = []
    for infinitive, third, past, participle, english, subjects, slots, manners in rows(table):
        prefix, _, german = infinitive.rpartition("|")
        auxiliary = "sein" if participle.startswith("ist ") else "haben"
        words, _, english_past = english.partition("/")
        base, _, particle = words.partition("+")
        for way in _read_slots(slots):
            verbs.append(
                Verb(
                    german,
                    prefix,
                    third,
                    past,
                    prefix + participle.removeprefix("ist "),
                    auxiliary,
                    base,
                    english_past or _past_of(base),
                    particle,
                    tuple(nouns_of(subjects)),
                    way,
                    tuple(word for word in manners.split(",") if word),
                    state,
                )  # fmt: skip
            )
    return verbs


ACTIONS = _read_verbs(_ACTIONS, state=False)
STATES = _read_verbs(_STATES, state=True)


@dataclass(frozen=True, eq=False, slots=True)
class Modal:
    """A modal verb: the forms with er, in the present and the past; the English forms with it; how each is negated."""

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
    glauben      glaubt     glaubte     geglaubt     think/thought  person        -                   -
    hoffen       hofft      hoffte      gehofft      hope          person         -                   -
    wissen       weiß       wusste      gewusst      know/knew     person         -                   -
    sagen        sagt       sagte       gesagt       say/said      person         -                   -
    träumen      träumt     träumte     geträumt     dream/dreamed  person        -                   -
""",
    state=True,
)
