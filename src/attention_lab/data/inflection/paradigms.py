"""Known forms of a lemma, from training, as part of the source."""

from collections.abc import Iterator, Sequence
from itertools import islice

from attention_lab.data.reading.files import CHARACTERS, Row
from attention_lab.errors import LabError
from attention_lab.machine import check_fits_in_memory

MOST_FORMS = 1000
"""Maximum number of forms of a lemma, the first in training, that are compared with each other."""
MOST_STEPS = 300_000_000
"""Maximum number of comparisons of two forms, each of which counts once for every `_TAGS` tags of the lemma:
about 30 seconds. Files of many rows may take more: enough for `MOST_FORMS` forms with `_TAGS` tags a row."""
_TAGS = 2000


class Paradigms:
    """The forms of each lemma in training, from which the known forms of a source are chosen.

    Args:
        train: the training rows, with the lemma, form and tags as their first, second and third column.
        most: maximum number of known forms of a source.
    """

    def __init__(self, train: Sequence[Row], most: int) -> None:
        self.most = most
        self.characters = self.steps = 0
        self.most_steps = max(MOST_STEPS, 2 * MOST_FORMS * len(train))
        self.lemmas: dict[str, _Lemma] = {}
        for row in train if most else ():
            self.lemmas.setdefault(row.first, _Lemma()).add(row)

    def text(self, row: Row) -> str:
        """The source of a row: lemma and tags, then the known forms whose tags are most similar.

        Forms with the same tags are left out: they would give away the answer, and for training rows, one
        such a form is the row itself.

        Raises:
            LabError: the sources so far, in which a form may be repeated many times, do not fit in memory; or
                the lemmas so far have more forms and tags than can be compared in reasonable time.
        """
        text = f"{row.first}\t{row.third}"
        lemma = self.lemmas.get(row.first)
        if lemma is not None:
            self.steps += lemma.steps
            if self.steps > self.most_steps:
                raise LabError(
                    f"{row.place}: the lemmas up to here have too many forms and tags to choose known forms: "
                    "leave some out, or set data.known_forms=0"
                )
            nearest = (other for other in lemma.nearest(row.third) if other.third != row.third)
            text += "".join(f"\t{other.second}\t{other.third}" for other in islice(nearest, self.most))
        self.characters += len(text)
        task = f"{row.place}: reading the sources up to here, with data.known_forms={self.most},"
        check_fits_in_memory(CHARACTERS.byte * self.characters, task, "give fewer known forms")
        return text


class _Lemma:
    """The first forms of a lemma in training, and the tags of each as the bits of a number."""

    def __init__(self) -> None:
        self.forms: list[Row] = []
        self.bits: list[int] = []
        self.places: dict[str, int] = {}  # of each tag, in these numbers

    def add(self, row: Row) -> None:
        if len(self.forms) < MOST_FORMS:
            for tag in row.third.split(";"):
                self.places.setdefault(tag, len(self.places))
            self.forms.append(row)
            self.bits.append(self._bits(row.third))

    @property
    def steps(self) -> int:
        """See `MOST_STEPS`, for the comparisons of one row."""
        return len(self.forms) * (1 + len(self.places) // _TAGS)

    def nearest(self, tags: str) -> Iterator[Row]:
        """The forms, the ones with the fewest different tags first."""
        wanted = self._bits(tags)  # without tags that no form has: these differ from every form
        different = [(wanted ^ bits).bit_count() for bits in self.bits]
        order = sorted(range(len(different)), key=different.__getitem__)
        return map(self.forms.__getitem__, order)

    def _bits(self, tags: str) -> int:
        places = [self.places[tag] for tag in tags.split(";") if tag in self.places]
        number = bytearray(max(places, default=0) // 8 + 1)
        for place in places:
            number[place // 8] |= 1 << place % 8
        return int.from_bytes(number, "little")
