"""Assignments, and the variables whose value is run by somebody."""

from dogwatch.guard.bash.files import normal
from dogwatch.guard.bash.holes import WILD, WORDS, known
from dogwatch.guard.bash.parameters import perhaps_unset
from dogwatch.guard.bash.state import UNKNOWN, Array, Io, Shell, Texts, merged, plain, text_of
from dogwatch.guard.bash.tree import Assignment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dogwatch.guard.bash.interfaces import Walker

COMMAND_VARIABLES = frozenset(
    "PROMPT_COMMAND EDITOR VISUAL PAGER MANPAGER GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_PAGER GIT_SSH_COMMAND GIT_SSH"
    " GIT_EXTERNAL_DIFF GIT_ASKPASS GIT_PROXY_COMMAND SSH_ASKPASS SUDO_ASKPASS SUDO_EDITOR BROWSER LESSOPEN LESSCLOSE"
    " RSYNC_RSH CVS_RSH FCEDIT HGEDITOR SVN_EDITOR SVN_SSH SYSTEMD_EDITOR SYSTEMD_PAGER CRONTAB_EDITOR TEST_SHELL"
    " FZF_DEFAULT_COMMAND RUSTC_WRAPPER CARGO_BUILD_RUSTC_WRAPPER CMAKE_C_COMPILER_LAUNCHER".split()
)
"""Programs run the value of these as a command."""
SCRIPT_VARIABLES = frozenset(("BASH_ENV", "ENV", "PYTHONSTARTUP"))
"""Shells run the file that these name."""
OPTION_VARIABLES = {"NODE_OPTIONS": "node", "PERL5OPT": "perl", "RUBYOPT": "ruby"}
"""Programs take the value of these for options of their own."""


def assign(walker: "Walker", item: Assignment, shell: Shell) -> None:
    """`name=value` in all its forms."""
    if item.items is not None:
        _array(walker, item, shell)
        return
    if perhaps_unset(item.name, shell, walker.expander):
        shell.variables[item.name] = ()  # in `pids="$pids $!"` the first `$pids` is empty
    texts = walker.expander.text(item.value, shell) if item.value is not None else ("",)
    if item.index is None:
        put(walker, item.name, texts, shell, item.appends)
        return
    keys = walker.expander.text(item.index, shell)
    if item.name == "BASH_ALIASES":
        shell.aliases.update(dict.fromkeys(keys, texts))
    elif item.name == "BASH_CMDS":
        shell.programs.update((key, text) for key in keys for text in texts)
    name = shell.references.get(item.name, item.name)
    before = shell.variables.get(name)
    items = dict(before.items) if isinstance(before, Array) else {"0": before} if before else {}
    more: Texts = before.more if isinstance(before, Array) else ()
    for key in keys:
        key = _key(walker, key, shell, isinstance(before, Array))
        old = items.get(key, ("",)) if item.appends else ()
        items[key] = merged(one + text for one in old for text in texts) if item.appends else texts
        more = merged((*more, *texts)) if not known(key) else more
    if len(items) > 512:
        items, more = {}, UNKNOWN
    shell.variables[name] = Array(items, more)
    walker.world.remember(name, shell.variables[name])


def put(walker: "Walker", name: str, texts: Texts, shell: Shell, appends: bool = False) -> None:
    """Sets a variable to a text."""
    name = shell.references.get(name, name)
    if appends:
        before = shell.variables.get(name)
        if isinstance(before, Array):
            items = dict(before.items)
            items["0"] = merged(one + text for one in items.get("0", ("",)) for text in texts)
            shell.variables[name] = Array(items, before.more)
            return
        olds = before or ("",)
        texts = merged(old + text for old in olds for text in texts)
    if name in shell.cases:
        change = str.upper if shell.cases[name] == "u" else str.lower
        texts = tuple(change(text) if known(text) else text for text in texts)
    runs(walker, name, texts, shell)
    if name in shell.variables and isinstance(shell.variables[name], Array) and not appends:
        array = shell.variables[name]
        if isinstance(array, Array):
            shell.variables[name] = Array({**array.items, "0": texts}, array.more)
    else:
        shell.variables[name] = merged(text.replace(WORDS, WILD) for text in texts)
    walker.world.remember(name, shell.variables[name])


def runs(walker: "Walker", name: str, texts: Texts, shell: Shell) -> None:
    """Judges the value of a variable that programs run."""
    if name == "PS4":
        for text in texts:
            walker.world.leniently(walker.hidden, text, shell)
    elif name in COMMAND_VARIABLES or name.startswith("GIT_CONFIG_VALUE_"):
        texts = tuple(text.lstrip("!|") for text in texts)
        for text in texts:
            walker.world.leniently(walker.code, text, shell.copy())
    elif name in OPTION_VARIABLES:
        for text in texts:
            walker.world.leniently(walker.run, [OPTION_VARIABLES[name], *text.split()], shell.copy(), Io())
    elif name in SCRIPT_VARIABLES:
        for text in texts:
            for content in walker.world.files.read(normal(text, shell.cwd)):
                walker.code(content, shell.copy())


def _key(walker: "Walker", key: str, shell: Shell, present: bool) -> str:
    """An index as text; an expression is calculated unless it may be a key."""
    if key.isdigit() or not known(key):
        return key if key.isdigit() else WILD
    names = [char for char in key if not (char.isalnum() or char == "_")]
    if names or plain(text_of(shell.variables.get(key, ()))) is None:
        return key
    made = walker.calculated((key,), shell) if not present else key
    return made if known(made) else key


def _array(walker: "Walker", item: Assignment, shell: Shell) -> None:
    name = shell.references.get(item.name, item.name)
    before = shell.variables.get(name)
    array = Array({})
    if item.appends and before is not None:
        array = Array(dict(before.items), before.more) if isinstance(before, Array) else Array({"0": before})
    following = array.next_index()
    for one in item.items or ():
        if isinstance(one, Assignment):
            texts = walker.expander.text(one.value, shell) if one.value is not None else ("",)
            keys = walker.expander.text(one.index, shell) if one.index is not None else ("0",)
            for key in keys:
                array.items[key] = texts
            continue
        alternatives = walker.expander.arguments((one,), shell)
        fields = [field for fields in alternatives for field in fields]
        counted = not any(WORDS in field for field in fields)
        if array.more:
            array.more = merged((*array.more, *(field.replace(WORDS, WILD) for field in fields)))
            continue
        if counted and len(alternatives) == 1:
            for field in fields:
                array.items[str(following)] = (field,)
                following += 1
            continue
        texts = merged(field.replace(WORDS, WILD) for field in fields)
        if not (counted and all(len(one) == 1 for one in alternatives)):
            array.more = merged((*array.more, *texts))  # nobody knows how many there are
        array.items[str(following)] = texts
        following += 1
        walker.world.spend()
    if len(array.items) > 512:
        array = Array({}, UNKNOWN)
    shell.variables[name] = array
    walker.world.remember(name, array)
