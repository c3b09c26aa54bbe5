"""The embedded corpus: German sentences with their English translations, made by a small grammar of both languages."""

from .corpus import Corpus, build_corpus

__all__ = ["Corpus", "build_corpus"]
