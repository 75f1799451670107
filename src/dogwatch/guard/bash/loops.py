"""Loops: item by item where the items are known and few; else once as things are, and once as they may become."""

from dogwatch.guard.bash import assigning
from dogwatch.guard.bash.holes import NUMBER, WILD, WORDS, known
from dogwatch.guard.bash.state import NOTHING, UNKNOWN, Array, Io, Shell, Texts, followed, merged
from dogwatch.guard.bash.tree import For, While

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from dogwatch.guard.bash.interfaces import Walker

_ITERATIONS_MAX = 96
_ROUNDS_MAX = 4


def walk_while(walker: "Walker", node: While, shell: Shell, io: Io) -> Texts:
    for word in node.head:
        walker.calculated(walker.expander.text(word, shell), shell)

    def once(state: Shell) -> Texts:
        return followed(walker.script(node.condition, state, io), walker.script(node.body, state, io))

    return _repeated(walker, once, shell)


def _repeated(walker: "Walker", once: "Callable[[Shell], Texts]", shell: Shell) -> Texts:
    """A loop: again and again, as things may have become, until nothing changes any more."""
    walker.world.loops.append([])
    output: Texts = NOTHING
    for number in range(_ROUNDS_MAX + 1):
        state = shell.copy()
        made = once(state)
        output = made if number == 0 else output
        before = dict(shell.variables)
        for end in (state, *walker.world.loops[-1]):
            for name, value in end.variables.items():
                if value != before.get(name):
                    end.variables[name] = _widened(value) if number < _ROUNDS_MAX - 1 else UNKNOWN
            shell.join(end)
        walker.world.loops[-1].clear()
        if shell.variables == before:
            break
    walker.world.loops.pop()
    return output if output == NOTHING else merged((*output, WILD))


def walk_for(walker: "Walker", node: For, shell: Shell, io: Io) -> Texts:
    if node.words is None:
        lists = [list(fields) for fields in shell.positional]
    else:
        lists = walker.expander.arguments(node.words, shell)
    items = lists[0] if len(lists) == 1 else list(dict.fromkeys(field for fields in lists for field in fields))
    times = walker.world.iterations * max(len(items), 1)
    if times > _ITERATIONS_MAX or any(WORDS in item for item in items):
        value = merged(item.replace(WORDS, WILD) for item in items)

        def once(state: Shell) -> Texts:
            assigning.put(walker, node.name, value, state)
            return walker.script(node.body, state, io)

        return _repeated(walker, once, shell)
    before, walker.world.iterations = walker.world.iterations, times
    walker.world.loops.append([])
    output = NOTHING
    ends: list[Shell] = []
    for item in items:
        assigning.put(walker, node.name, (item,), shell)
        output = followed(output, walker.script(node.body, shell, io))
        ends.append(shell.copy())
    for state in (*ends[:-1], *walker.world.loops.pop()):
        shell.join(state)
    walker.world.iterations = before
    return output


def _widened(value: "Texts | Array") -> "Texts | Array":
    """What a variable that a loop changes may become in later rounds."""
    if isinstance(value, Array):
        texts = value.any()
        return Array({}, texts if _only_holes(texts) else merged((*texts, WILD)))
    if all(text.lstrip("-").isdigit() or text == NUMBER for text in value):
        return (NUMBER,)
    return value if _only_holes(value) else merged((*value, WILD))


def _only_holes(texts: Texts) -> bool:
    """Whether the kind of each text is known, and nothing else: an own pid stays one in every round."""
    return bool(texts) and all(len(text) == 1 and not known(text) for text in texts)
