"""The modules of a model that a caller has chosen by their names."""

from collections.abc import Collection

from attention_lab.argument_checks import kind_of

_MOST_TOLD = 20  # names in an error


class ChosenModules:
    """Modules chosen by name, each with all modules inside it; None chooses every module.

    Args:
        call: the function with the argument `names`, for messages.
        names: the names of the modules.
        known: the names of all modules of the model.

    Raises:
        TypeError: the names are not a list of names.
        ValueError: the list is empty.
        KeyError: the model has no module of that name.
    """

    def __init__(self, call: str, names: Collection[str] | None, known: Collection[str]) -> None:
        self._names = None if names is None else _list_of_names(call, names)
        for name in self._names or ():
            _check_name(name, known)

    def __contains__(self, name: str) -> bool:
        if self._names is None:
            return True
        return any(not one or name == one or name.startswith(f"{one}.") for one in self._names)


def _list_of_names(call: str, names: object) -> tuple[str, ...]:
    """The names given; raises TypeError if they are not strings in a collection, ValueError if none."""
    if isinstance(names, str) or not isinstance(names, Collection):
        example = f", such as [{names!r}]" if isinstance(names, str) else ""
        raise TypeError(f"{call}(names=...) takes a list of names{example}, not {kind_of(names)}")
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"{call}(names=...) takes a list of names, not of {kind_of(name)}")
    if not names:
        raise ValueError(f"{call}(names=[]) selects nothing: leave names out to select all modules")
    return tuple(names)


def _check_name(name: str, known: Collection[str]) -> None:
    """Reject a name that matches no module; the error lists the modules inside the last existing parent."""
    if name in known:
        return
    parent = name.rpartition(".")[0]
    while parent not in known:
        parent = parent.rpartition(".")[0]
    start = f"{parent}." if parent else ""
    inside = [one for one in known if one.startswith(start) and one != parent]
    children = list(dict.fromkeys(start + one[len(start) :].split(".")[0] for one in inside))
    there = ", ".join(children[:_MOST_TOLD]) + (", ..." if len(children) > _MOST_TOLD else "")
    where = f"{parent!r}" if parent else "the model"
    raise KeyError(f"{name}: no module has this name; the modules in {where} are {there or 'none'}")
