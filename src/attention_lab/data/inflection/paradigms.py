"""Known forms: other forms of the same lemma that occur in training."""

from collections.abc import Sequence

from attention_lab.data.reading.files import CHARACTERS, Row
from attention_lab.machine import check_fits_in_memory

MOST_FORMS = 1000
"""Maximum number of forms of a lemma, the first in training, that are compared with each other."""


class Paradigms:
    """The forms of each lemma in training.

    Args:
        train: the rows of the training split.
        most: number of forms to add to a source.
    """

    def __init__(self, train: Sequence[Row], most: int) -> None:
        self.most = most
        self.characters = 0
        self.forms: dict[str, list[Row]] = {}
        for row in train if most else ():
            forms = self.forms.setdefault(row.first, [])
            if len(forms) < MOST_FORMS:
                forms.append(row)

    def text(self, row: Row) -> str:
        """The source of a row: lemma and tags, then the known forms whose tags are most similar.

        Among equally similar forms, the first are taken. Forms with the same tags are left out: in training,
        such a form is the row itself.

        Raises:
            LabError: the sources so far, in which a form may be repeated many times, do not fit in memory.
        """
        wanted = set(row.third.split(";"))
        others = [other for other in self.forms.get(row.first, ()) if other.third != row.third]
        others.sort(key=lambda other: len(wanted ^ set(other.third.split(";"))))
        known = (f"\t{other.second}\t{other.third}" for other in others[: self.most])
        text = f"{row.first}\t{row.third}" + "".join(known)
        self.characters += len(text)
        task = f"{row.place}: reading the sources up to here, with data.known_forms={self.most},"
        check_fits_in_memory(CHARACTERS.byte * self.characters, task, "give fewer known forms")
        return text
