"""Options of programs, read as getopt reads them."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection


class Options:
    """Flags, options with their values, and the words behind them."""

    __slots__ = ("flags", "rest", "values")

    def __init__(self) -> None:
        self.flags: set[str] = set()
        self.values: dict[str, list[str]] = {}
        self.rest: list[str] = []

    def value(self, *names: str) -> str | None:
        """The last value given under one of the names."""
        return next((self.values[name][-1] for name in names if name in self.values), None)

    def has(self, *names: str) -> bool:
        return any(name in self.flags or name in self.values for name in names)


def options(
    words: list[str], valued: str = "", long_valued: "Collection[str]" = (), *, permute: bool = False
) -> Options:
    """Reads options; `valued` and `long_valued` take a value. Without `permute` the first other word ends them."""
    found = Options()
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word == "--":
            found.rest += words[at:]
            break
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            whole = name if name in long_valued else next((one for one in long_valued if one.startswith(name)), name)
            if equals:
                found.values.setdefault(whole, []).append(value)
            elif whole in long_valued and at < len(words):
                found.values.setdefault(whole, []).append(words[at])
                at += 1
            else:
                found.flags.add(whole)
        elif word.startswith("-") and word != "-":
            for place, letter in enumerate(word[1:], 2):
                if letter not in valued:
                    found.flags.add(letter)
                    continue
                value = word[place:]
                if not value and at < len(words):
                    value = words[at]
                    at += 1
                found.values.setdefault(letter, []).append(value)
                break
        elif permute:
            found.rest.append(word)
        else:
            found.rest += words[at - 1 :]
            break
    return found
