"""Morphological inflection: lemma and tags to the inflected form, known forms, made-up examples."""
