"""What is learnt: translation, classification, language models, and how well."""
