"""A bilingual grammar: the embedded German-English corpus."""
