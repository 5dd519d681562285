"""How often texts are compared: a list that is searched for each of its items takes quadratic time."""


class Compared(str):
    """A text that counts in `times` how often it is compared; each derived class counts for itself."""

    times = 0

    def __eq__(self, other: object) -> bool:
        type(self).times += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__
