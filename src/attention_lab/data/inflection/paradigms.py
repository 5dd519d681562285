"""Known forms: other forms of the same lemma that occur in training."""

from collections.abc import Sequence

from attention_lab.data.reading.files import CHARACTERS, Row
from attention_lab.errors import LabError
from attention_lab.machine import check_fits_in_memory

MOST_FORMS = 1000
"""Maximum number of forms of a lemma, the first in training, that are compared with each other."""
MOST_STEPS = 500_000_000
"""Maximum number of steps of all comparisons, one for each tag and `_FORM` for each form: 20 seconds. A
file of many rows may take more, `_STEPS` for each."""
_FORM, _STEPS = 10, 3_000


class Paradigms:
    """The forms of each lemma in training.

    Args:
        train: the rows of the training split.
        most: number of forms to add to a source.
    """

    def __init__(self, train: Sequence[Row], most: int) -> None:
        self.most = most
        self.characters = self.steps = 0
        self.most_steps = max(MOST_STEPS, _STEPS * len(train))
        self.forms: dict[str, list[Row]] = {}
        self._costs: dict[str, int] = {}
        self._tags: dict[str, frozenset[str]] = {}
        for row in train if most else ():
            forms = self.forms.setdefault(row.first, [])
            if len(forms) < MOST_FORMS:
                forms.append(row)
                tags = self._tags.setdefault(row.third, frozenset(row.third.split(";")))
                self._costs[row.first] = self._costs.get(row.first, 0) + _FORM + len(tags)

    def text(self, row: Row) -> str:
        """The source of a row: lemma and tags, then the known forms whose tags are most similar.

        Among equally similar forms, the first are taken. Forms with the same tags are left out: in training,
        such a form is the row itself.

        Raises:
            LabError: the sources so far, in which a form may be repeated many times, do not fit in memory; or
                the lemmas so far have more forms and tags than can be compared in reasonable time.
        """
        wanted = frozenset(row.third.split(";"))
        forms = self.forms.get(row.first, [])
        self.steps += self._costs.get(row.first, 0) + len(forms) * len(wanted)
        if self.steps > self.most_steps:
            raise LabError(
                f"{row.place}: the lemmas up to here have too many forms or tags to choose known forms: "
                "leave some out, or set data.known_forms=0"
            )
        others = [other for other in forms if other.third != row.third]
        others.sort(key=lambda other: len(wanted ^ self._tags[other.third]))
        known = (f"\t{other.second}\t{other.third}" for other in others[: self.most])
        text = f"{row.first}\t{row.third}" + "".join(known)
        self.characters += len(text)
        task = f"{row.place}: reading the sources up to here, with data.known_forms={self.most},"
        check_fits_in_memory(CHARACTERS.byte * self.characters, task, "give fewer known forms")
        return text
