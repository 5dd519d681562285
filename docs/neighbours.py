"""The nearest words in the embedding table of a language model, by the cosine of their vectors.

python train.py model=lm data=sentences
python docs/neighbours.py <run folder>/checkpoints/best.ckpt queen cheese walks
python docs/neighbours.py <run folder>/checkpoints/best.ckpt     how many are nearest to their own kind
"""

import argparse
import sys
from collections import Counter
from itertools import chain

import torch.nn.functional as F

import attention_lab
from attention_lab.callbacks.embeddings import embedding_tables
from attention_lab.data.synthetic.sentences import GRAMMAR
from attention_lab.errors import LabError

NEAR = 5
LISTS = {
    name: [choice[0] for choice in choices]
    for name, choices in GRAMMAR.items()
    if all(len(choice) == 1 and choice[0] not in GRAMMAR for choice in choices)
}
COUNTS = Counter(chain.from_iterable(LISTS.values()))
KINDS = {word: name for name, words in LISTS.items() for word in words if COUNTS[word] == 1}
"""The list of each word. Words in two lists, such as `the`, or in none, such as `that`, are left out."""


def main(path: str, words: list[str]) -> None:
    """Print the neighbours of `words`; without words, how many have one of their own kind nearest."""
    ((_, labels, vectors),) = embedding_tables(attention_lab.load(path).task)
    unit = F.normalize(vectors, dim=1)
    nearness = (unit @ unit.mT).fill_diagonal_(-2)  # a word is not its own neighbour
    for word in words:
        if word not in labels:
            sys.exit(f"Error: {word!r} is not in the table")
        nearest = nearness[labels.index(word)].topk(NEAR).indices.tolist()
        print(f"{word}: {', '.join(labels[number] for number in nearest)}")
    if not words:
        known = [word for word in labels if word in KINDS]
        nearest = [labels[int(nearness[labels.index(word)].argmax())] for word in known]
        pairs = zip(known, nearest, strict=True)
        others = [f"{word} ({other})" for word, other in pairs if KINDS.get(other) != KINDS[word]]
        print(f"{len(known) - len(others)} of {len(known)} words have one of their kind nearest")
        if others:
            print(f"not: {', '.join(others)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__
    )
    parser.add_argument("checkpoint", help="a checkpoint of model=lm")
    parser.add_argument("words", nargs="*", help="words from its vocabulary")
    arguments = parser.parse_args()
    try:
        main(arguments.checkpoint, arguments.words)
    except LabError as error:
        sys.exit(f"Error: {error}")
