"""A bilingual grammar: the embedded German-English corpus.

words              the words with all their forms, from words.txt
phrases            agreement: the endings of a noun phrase, from endings.txt
clauses            word order, and the English verb with its auxiliaries
storyteller        what to say: random clauses that make sense
patterns           sentences made of clauses
corpus             training, validation and test sets with held-out combinations

`french` is a separate small grammar; those of news and captions are in `data/news.py` and `data/captions.py`.
"""

from .corpus import Corpus, Sentence, build_corpus, choose_held_out, generate
