"""The names under which the calls of a module are recorded: its own, then `name#2`, `name#3`, ..."""

from attention_lab.attention.recording.site import Place, Site


class CallNames:
    """Numbers the attentions of each module.

    Calls at one place of a module's code are steps of one attention. Another place, or another number of
    examples or heads, is another attention.
    """

    def __init__(self) -> None:
        self._places: dict[str, tuple[int, list[Place]]] = {}
        self._known: dict[str, list[tuple[int, tuple[int, ...]]]] = {}

    def name(self, site: Site, sizes: tuple[int, ...]) -> str:
        """The name of a call; the numbers of its places begin anew with each call of the module.

        Args:
            site: the module that computes attention.
            sizes: the number of examples, and of heads.
        """
        place = 0
        if site.place is not None:
            call, here = site.place
            last, places = self._places.get(site.name, (call, []))
            places = places if last == call else []
            if here not in places:
                places.append(here)
            self._places[site.name] = call, places
            place = places.index(here)
        known = self._known.setdefault(site.name, [])
        if (place, sizes) not in known:
            known.append((place, sizes))
        return _numbered(site.name, known.index((place, sizes)) + 1)

    def forget(self, site: Site, name: str) -> None:
        """Give the number of a name to another attention, if it was the last number."""
        if name == _numbered(site.name, len(self._known[site.name])):
            self._known[site.name].pop()


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}#{number}"
