"""Morphological inflection: from a lemma and tags to the inflected form; known forms; synthetic examples."""
