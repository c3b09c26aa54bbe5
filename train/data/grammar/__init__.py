"""A bilingual grammar: the embedded German-English corpus.

words, tables                         the words, from words.txt
inflection, english                    endings, in either language
phrases, clauses                       agreement and word order
storyteller                            what to say: random clauses that make sense
main_clauses, subordinate_clauses      patterns of sentences
sentences                              a random pattern at a time
corpus                                 training, validation and test sets with held-out combinations
"""

from __future__ import annotations

from .corpus import Corpus, build_corpus, choose_held_out, generate
from .sentences import Sentence
