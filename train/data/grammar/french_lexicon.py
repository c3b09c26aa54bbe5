"""The words of the English-French grammar, as tables."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FrenchNoun:
    """A noun in both languages, singular and plural."""

    english: str
    english_plural: str
    french: str
    french_plural: str
    feminine: bool


@dataclass(frozen=True)
class FrenchAdjective:
    """An adjective: French forms, and whether it stands before the noun.

    `before_vowel` is the masculine singular before a vowel (bel, vieil, nouvel) where it differs.
    """

    english: str
    masculine: str
    feminine: str
    masculine_plural: str
    feminine_plural: str
    precedes: bool = False
    before_vowel: str = ""


@dataclass(frozen=True)
class FrenchVerb:
    """A verb in both languages; French verbs end in -er and are regular, so the stem says all.

    `with_etre` builds the past with être, whose participle agrees with the subject.
    """

    english: str
    third: str
    past: str
    stem: str
    with_etre: bool = False


def _nouns(text: str) -> list[FrenchNoun]:
    """Rows: English, French with its article "le" or "la" to tell the gender, and plurals that are not regular."""
    nouns = []
    for row in text.strip().splitlines():
        english, french, *plurals = (cell.strip() for cell in row.split("|"))
        article, french = french.split(" ", 1)
        english_plural = next((p[3:] for p in plurals if p.startswith("en ")), english + "s")
        french_plural = next((p[3:] for p in plurals if p.startswith("fr ")), french + "s")
        nouns.append(FrenchNoun(english, english_plural, french, french_plural, article == "la"))
    return nouns


PEOPLE = _nouns("""
man | le homme | en men
woman | la femme | en women
boy | le garçon
girl | la fille
teacher | le professeur
neighbour | la voisine
farmer | le fermier
student | la étudiante
doctor | le médecin
singer | la chanteuse
baker | le boulanger
artist | la artiste
king | le roi
queen | la reine
child | le enfant | en children
friend | le ami
""")  # fmt: skip

ANIMALS = _nouns("""
dog | le chien
cat | le chat
horse | le cheval | fr chevaux
bird | le oiseau | fr oiseaux
cow | la vache
mouse | la souris | en mice | fr souris
""")  # fmt: skip

THINGS = _nouns("""
car | la voiture
house | la maison
key | la clé
book | le livre
letter | la lettre
bag | le sac
boat | le bateau | fr bateaux
table | la table
window | la fenêtre
hat | le chapeau | fr chapeaux
umbrella | le parapluie
tree | le arbre
picture | la image
coat | le manteau | fr manteaux
bottle | la bouteille
lamp | la lampe
""")  # fmt: skip

PLACES = _nouns("""
garden | le jardin
market | le marché
station | la gare
hotel | le hôtel
school | la école
castle | le château
bridge | le pont
church | la église
river | la rivière
shop | le magasin
""")  # fmt: skip

ADJECTIVES = [
    FrenchAdjective("small", "petit", "petite", "petits", "petites", True),
    FrenchAdjective("big", "grand", "grande", "grands", "grandes", True),
    FrenchAdjective("old", "vieux", "vieille", "vieux", "vieilles", True, "vieil"),
    FrenchAdjective("new", "nouveau", "nouvelle", "nouveaux", "nouvelles", True, "nouvel"),
    FrenchAdjective("beautiful", "beau", "belle", "beaux", "belles", True, "bel"),
    FrenchAdjective("red", "rouge", "rouge", "rouges", "rouges"),
    FrenchAdjective("black", "noir", "noire", "noirs", "noires"),
    FrenchAdjective("green", "vert", "verte", "verts", "vertes"),
    FrenchAdjective("white", "blanc", "blanche", "blancs", "blanches"),
    FrenchAdjective("heavy", "lourd", "lourde", "lourds", "lourdes"),
    FrenchAdjective("expensive", "cher", "chère", "chers", "chères"),
    FrenchAdjective("dirty", "sale", "sale", "sales", "sales"),
]

#: Of people and animals; all stand behind the noun.
MOODS = [
    FrenchAdjective("tired", "fatigué", "fatiguée", "fatigués", "fatiguées"),
    FrenchAdjective("happy", "heureux", "heureuse", "heureux", "heureuses"),
    FrenchAdjective("intelligent", "intelligent", "intelligente", "intelligents", "intelligentes"),
    FrenchAdjective("calm", "calme", "calme", "calmes", "calmes"),
    FrenchAdjective("brave", "courageux", "courageuse", "courageux", "courageuses"),
]

TRANSITIVE = [
    FrenchVerb("watch", "watches", "watched", "regard"),
    FrenchVerb("look for", "looks for", "looked for", "cherch"),
    FrenchVerb("carry", "carries", "carried", "port"),
    FrenchVerb("draw", "draws", "drew", "dessin"),
    FrenchVerb("wash", "washes", "washed", "lav"),
    FrenchVerb("find", "finds", "found", "trouv"),
    FrenchVerb("hide", "hides", "hid", "cach"),
    FrenchVerb("admire", "admires", "admired", "admir"),
    FrenchVerb("forget", "forgets", "forgot", "oubli"),
    FrenchVerb("show", "shows", "showed", "montr"),
    FrenchVerb("touch", "touches", "touched", "touch"),
]

INTRANSITIVE = [
    FrenchVerb("work", "works", "worked", "travaill"),
    FrenchVerb("sing", "sings", "sang", "chant"),
    FrenchVerb("dance", "dances", "danced", "dans"),
    FrenchVerb("play", "plays", "played", "jou"),
    FrenchVerb("talk", "talks", "talked", "parl"),
    FrenchVerb("arrive", "arrives", "arrived", "arriv", True),
    FrenchVerb("stay", "stays", "stayed", "rest", True),
    FrenchVerb("fall", "falls", "fell", "tomb", True),
]
