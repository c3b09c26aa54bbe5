"""A bilingual grammar: the embedded German-English corpus.

lexicon      nouns, adjectives, determiners, pronouns, as tables
verbs        verbs and what each of them needs
times        tenses, and adverbials of time
inflection   German endings
english      English endings and do-support
phrases      noun phrases and prepositional phrases
clauses      word order
storyteller  what to say: random clauses that make sense
sentences    patterns of whole sentences
corpus       training, validation and test sets with held-out combinations
"""

from __future__ import annotations

from .corpus import Corpus, build_corpus, choose_held_out, generate
from .sentences import Sentence
