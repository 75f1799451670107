"""Programs in python, judged by the calls in their syntax tree."""

from dogwatch.guard.bash.call import Call
from dogwatch.guard.bash.files import FRAGMENT
from dogwatch.guard.bash.holes import OWN, TAME, WILD, known, without_holes
from dogwatch.guard.bash.state import Io, Texts
from dogwatch.guard.languages.python_calls import CHANGES, CODE, KILLS, REMOVES, RUNS
from dogwatch.guard.languages.python_texts import RISKY, UNKNOWN, Value, as_text, each
from dogwatch.guard.languages.python_values import HOLE, Values
from dogwatch.guard.verdict import OWN_JOBS, deny

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Node = Any

_ONLY_TREE = 0x400  # ast.PyCF_ONLY_AST, without importing ast
_NODES_MAX = 60_000
_RISKY_WORDS = ("kill", "system", "popen", "subprocess", "exec", "eval", "ctypes", "psutil", "spawn", "__import__")
_ENDING_METHODS = ("kill", "terminate", "send_signal", "suspend")
_SYSTEM_CALLS = ("kill", "killpg", "tgkill", "syscall", "reboot", "system", "execv", "execve", "popen", "raise")
_ONLY_LOOKS = frozenset("print repr type help dir callable id inspect mock unittest isinstance vars".split())
_SESSION_METHODS = {
    "cmd": "",
    "kill": "kill-session",
    **{name: name.replace("_", "-") for name in "kill_server kill_session kill_window kill_pane send_keys".split()},
}
"""Methods of libtmux, and what they are for tmux itself."""
_REMOTE = frozenset("run sudo local exec_command sendline send_command".split())
_REMOTES = frozenset("fabric invoke paramiko pexpect nox plumbum".split())
"""Methods that run their text as a command, of objects of these modules."""
_PUSHES_INPUT = (("ref", "termios.TIOCSTI"), ("number", 0x5412))
_PLAINLY = "write the program's calls plainly, or run the command with the shell"


def judge_python(call: Call, code: str) -> None:
    """Denies a program that ends others' processes, or that runs what cannot be read."""
    source = "".join(HOLE if "\ud800" <= char <= "\udfff" else char for char in code).lstrip("\ufeff")
    tree = _tree(source)
    if tree is None:
        _judge_text(call, source)
        return
    nodes = _nodes(tree)
    call.world.spend(len(nodes) // 8)
    argv = call.args if call.name.startswith(("python", "pypy")) else []
    _Program(call, nodes, argv).judge()


def _tree(source: str) -> "Node | None":
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return compile(_dedented(source), "<guard>", "exec", _ONLY_TREE, dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
            return None


def _dedented(source: str) -> str:
    """Without the indentation that all lines share, as newer versions read `-c`."""
    lines = [line for line in source.splitlines() if line.strip()]
    first = lines[0] if lines else ""
    indent = first[: len(first) - len(first.lstrip())]
    if not indent or not all(line.startswith(indent) for line in lines):
        return source
    return "\n".join(line.removeprefix(indent) for line in source.splitlines())


def _nodes(tree: "Node") -> "list[Node]":
    """All nodes, in the order of the text as far as that matters."""
    found: list[Node] = []
    waiting: list[Node] = [tree]
    while waiting and len(found) < _NODES_MAX:
        node = waiting.pop()
        found.append(node)
        for field in reversed(node._fields):
            value = getattr(node, field, None)
            for one in reversed(value) if isinstance(value, list) else (value,):
                if hasattr(one, "_fields"):
                    waiting.append(one)
    return found


def _judge_text(call: Call, source: str) -> None:
    """No python that we can read: it may be of another version, so its names decide."""
    from dogwatch.guard.languages.scripting import judge_script
    from dogwatch.guard.languages.tokens import Grammar, Tokens

    names = [text for kind, text in Tokens(source, Grammar(quotes="'\"")).found if kind == "name"]
    if any(word in name.lower() for name in names for word in _RISKY_WORDS):
        judge_script(call, "generic", source)
        call.world.unresolved("a python program that cannot be read runs or ends something", _PLAINLY)


class _Program:
    def __init__(self, call: Call, nodes: "list[Node]", argv: list[str]) -> None:
        self.call = call
        self.rules = call.rules
        self.nodes = nodes
        self.values = Values(nodes, argv)
        self.imported = {
            str(one[1]).partition(".")[0] for values in self.values.bound.values() for one in values if _is_ref(one)
        }

    def judge(self) -> None:
        self._imports()
        functions = {id(node.func) for node in self.nodes if type(node).__name__ == "Call"}
        for node in self.nodes:
            kind = type(node).__name__
            if kind == "Call":
                self._call(node)
            elif kind == "Expr" and getattr(node.value, "id", "") == HOLE:
                self._unresolved("runs text that is put in from outside")
            elif kind in ("Attribute", "Name") and id(node) not in functions:
                self._mentioned(node)

    def _imports(self) -> None:
        """Modules that were changed run when they are imported."""
        names = {str(one[1]) for values in self.values.bound.values() for one in values if _is_ref(one)}
        names.update(self.values.stars)
        script = next((word for word in self.call.args if word.endswith(".py")), "")
        folder = script.rpartition("/")[0]
        for name in sorted(names)[:100]:
            path = name.replace(".", "/")
            for one in {path, path.rpartition("/")[0]} - {""}:
                for place in {one, f"{folder}/{one}" if folder else one}:
                    self.rules.run_module(self.call, "python", (f"{place}.py", f"{place}/__init__.py"))

    def _call(self, node: "Node") -> None:
        if getattr(node.func, "id", "") == HOLE:
            self._unresolved("calls a function whose name is put in from outside")
        for value in self.values.of(node.func):
            if value[0] == "ref":
                self._function(node, str(value[1]))
            elif value[0] == "unknown" and type(node.func).__name__ == "Attribute":
                self._method(node, node.func.attr)
            elif value[0] == "file" or type(node.func).__name__ == "Attribute":
                self._method(node, getattr(node.func, "attr", ""))
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            for value in self.values.of(argument):
                if value[0] == "ref" and (value[1] in KILLS or value[1] in RUNS or value[1] in CODE):
                    self._handed_on(node, str(value[1]))

    def _function(self, node: "Node", name: str) -> None:
        for module in RISKY:
            # `subprocess.os.kill` is `os.kill`.
            name = name[name.rfind(f".{module}.") + 1 :] if f".{module}." in name else name
        if "." in name and not known(name.rpartition(".")[2]):
            if name.partition(".")[0] in RISKY:
                self._unresolved("calls a function whose name is put together", ends=True)
        elif name in RUNS:
            self._runs(node, RUNS[name])
        elif name in KILLS:
            self._kills(node)
        elif name in CODE:
            self._code(node)
        elif name in ("runpy.run_path", "timeit.timeit", "timeit.repeat"):
            self._code(node) if name != "runpy.run_path" else None
        elif name in ("operator.attrgetter", "operator.methodcaller") and node.args:
            if any(text in ("kill", "killpg", "system", "popen") for text in self.values.texts(node.args[0])):
                self._unresolved("calls a function by its name in a text")
        elif name in REMOVES:
            self._paths(
                node,
                lambda path: self.rules.may_remove(self.call.world, self.call.path(path), path, REMOVES[name]),
            )
        elif name in CHANGES:
            self._paths(node, lambda path: self.rules.may_write(self.call.world, self.call.path(path), path))
        elif name in ("open", "io.open", "codecs.open"):
            self._opens(node)
        elif name == "json.dump" and len(node.args) > 1:
            for kind, file in self.values.of(node.args[1]):
                if kind == "file":
                    self._writes(str(file), None, False)
        elif name == "fcntl.ioctl":
            if any(value in _PUSHES_INPUT for argument in node.args for value in self.values.of(argument)):
                deny("terminal.input", "the program types into a terminal", "type only into what you have started")
        elif name.startswith(("sh.", "plumbum.cmd.")) and self.imported & {"sh", "plumbum"}:
            words = [text for argument in node.args for text in self.values.texts(argument)[:1]]
            program = name.removeprefix("sh.").removeprefix("plumbum.cmd.").removesuffix(".run").removesuffix(".popen")
            self.call.run([program.replace("_", "-"), *words], self.call.shell.copy())
        elif (
            name.startswith(("ctypes.", "cffi."))
            or name.rpartition(".")[2] in _ENDING_METHODS
            or name.rpartition(".")[2] in ("write_text", "unlink", "connect", "rmtree", "write")
        ):
            self._method(node, name.rpartition(".")[2])

    def _method(self, node: "Node", name: str) -> None:
        """A method of an object that is only partly known."""
        base = getattr(node.func, "value", None)
        bases = self.values.of(base) if base is not None else [UNKNOWN]
        if name in _ENDING_METHODS and "psutil" in self.imported and not any(one[0] == "own" for one in bases):
            if any(one[0] == "found" for one in bases) or not self.call.world.lenient:
                self.call.world.unresolved("the program ends processes that it has looked up", OWN_JOBS, "kill.foreign")
        elif name in _SYSTEM_CALLS and "ctypes" in self.imported and any(one[0] != "own" for one in bases):
            self._unresolved("calls the system past python", ends=True)
        elif "libtmux" in self.imported and name in _SESSION_METHODS:
            words = [text for argument in node.args for text in self.values.texts(argument)[:1]]
            self.call.run(["tmux", *(words if name == "cmd" else [_SESSION_METHODS[name]])], self.call.shell.copy())
        elif (name in ("system", "popen") and bases == [UNKNOWN]) or (name in _REMOTE and self.imported & _REMOTES):
            self._shell(node.args[0], lenient=True) if node.args else None
        elif name in ("write_text", "write_bytes", "unlink", "rename", "rmdir", "touch", "chmod"):
            for path in [str(one[1]) for one in bases if one[0] == "text"]:
                self._path_method(node, name, path)
        elif name == "connect":
            for text in self.values.texts(node.args[0]) if node.args else ():
                self.rules.inside(self.call.world, self.call.path(text), text)
        elif name in ("write", "writelines"):
            for kind, file in bases:
                if kind == "file":
                    self._writes(str(file), node.args[0] if node.args else None, True)

    def _path_method(self, node: "Node", name: str, path: str) -> None:
        place = self.call.path(path)
        if name in ("unlink", "rename", "rmdir"):
            self.rules.may_remove(self.call.world, place, path, name == "rename")
            return
        self.rules.may_write(self.call.world, place, path)
        if name.startswith("write"):
            self._writes(path, node.args[0] if node.args else None, False)

    def _writes(self, path: str, node: "Node | None", appends: bool) -> None:
        """What is put into a file; where that is not known, data may hold any text of the program."""
        texts = self.values.texts(node) if node is not None else [WILD]
        if WILD in texts and path.endswith(".json"):
            constants = [one.value for one in self.nodes if type(one).__name__ == "Constant"]
            texts = [FRAGMENT + "\n".join(one for one in constants if isinstance(one, str))]
        self.call.walker.write(self.call.path(path), tuple(texts), appends, self.call.shell)

    def _argument(self, node: "Node", number: int, *names: str) -> "Node | None":
        if len(node.args) > number:
            return node.args[number]
        return next((keyword.value for keyword in node.keywords if keyword.arg in names), None)

    def _runs(self, node: "Node", how: str) -> None:
        place = 1 if how.startswith("mode ") else 0
        how = how.removeprefix("mode ")
        first = self._argument(node, place, "args", "cmd", "command", "file", "path", "program")
        if first is None:
            if any(keyword.arg is None for keyword in node.keywords):
                self._unresolved("runs a command whose words are put together")
            return
        if how == "shell":
            self._shell(first)
        elif how == "either":
            self._either(node, first)
        elif how == "words":
            self._words([value for argument in node.args for value in self.values.of(argument)[:1]])
        elif how == "file words":
            words = [value for argument in node.args[place + 2 :] for value in self.values.of(argument)[:1]]
            self._words([*self.values.of(first)[:1], *words])
        else:
            second = self._argument(node, place + 1, "args", "argv")
            for value in self.values.of(second) if second is not None else []:
                items = value[1][1:] if value[0] == "list" and isinstance(value[1], list) else [UNKNOWN]
                self._words([*self.values.of(first)[:1], *items])

    def _either(self, node: "Node", first: "Node") -> None:
        """`subprocess.run`: a list of words, or a script."""
        given = self._argument(node, 99, "input")
        stdin: Texts | None = None
        if given is not None or self._argument(node, 99, "stdin") is not None:
            stdin = tuple(self.values.texts(given)) if given is not None else (WILD,)
        shell = self._argument(node, 8, "shell")
        is_shell = shell is not None and not (type(shell).__name__ == "Constant" and not shell.value)
        for value in self.values.of(first):
            if value[0] == "list" and isinstance(value[1], list):
                if is_shell and value[1]:
                    self._script(as_text(value[1][0]), stdin)
                else:
                    self._words(value[1], stdin)
            elif value[0] == "text" and not is_shell:
                text = str(value[1])
                self._words([value], stdin) if " " not in text else self._script(text, stdin)
            else:
                self._script(as_text(value), stdin)

    def _shell(self, node: "Node", lenient: bool = False) -> None:
        for text in self.values.texts(node):
            if lenient:
                self.call.world.leniently(self._script, text)
            else:
                self._script(text)

    def _script(self, text: str, stdin: Texts | None = None) -> None:
        if not known(text) and not without_holes(text).strip():
            self._unresolved("runs a command that is put together")
        else:
            self.call.code(text.replace(WILD, TAME), self.call.shell.copy(), Io(stdin))

    def _words(self, values: "list[Value]", stdin: Texts | None = None) -> None:
        if not values:
            return
        for first in each(values[0]):
            words = [as_text(first), *(as_text(next(iter(each(value)))) for value in values[1:])]
            if not known(words[0]) and not without_holes(words[0]).strip("./"):
                self._unresolved("runs a command that is put together")
                continue
            self.call.run(words, self.call.shell.copy(), Io(stdin))
            for number, value in enumerate(values[1:], 1):
                for other in list(each(value))[1:]:
                    changed = [*words[:number], as_text(other), *words[number + 1 :]]
                    self.call.run(changed, self.call.shell.copy())

    def _kills(self, node: "Node") -> None:
        target = self._argument(node, 0, "pid", "pgid", "pidfd")
        signal = self._argument(node, 1, "sig", "signal", "signalnum")
        signals = self.values.of(signal) if signal is not None else [UNKNOWN]
        if target is None or all(value == ("number", 0) for value in signals):
            return
        for value in self.values.of(target):
            self._target(value)

    def _target(self, value: Value) -> None:
        self.rules.judge_target(self.call, as_text(value) if value[0] != "own" else OWN)

    def _code(self, node: "Node") -> None:
        if not node.args:
            return
        for value in self.values.of(node.args[0]):
            if value[0] == "text" and known(str(value[1])):
                self.call.world.enter()
                judge_python(self.call, str(value[1]))
                self.call.world.leave()
            elif not self._is_compiled(node.args[0]):
                self._unresolved("runs a program that is put together")

    def _is_compiled(self, node: "Node") -> bool:
        """`exec(compile(open(file).read(), …))`: a file that is run like any other."""
        inner = node
        for _ in range(4):
            if type(inner).__name__ == "Call" and any(v == ("ref", "compile") for v in self.values.of(inner.func)):
                inner = inner.args[0] if inner.args else inner
            elif type(inner).__name__ == "Call" and getattr(inner.func, "attr", "") in ("read", "read_text"):
                return all(kind in ("file", "text") for kind, _ in self.values.of(inner.func.value))
        return False

    def _handed_on(self, node: "Node", name: str) -> None:
        """A function that runs or ends something is given to another: what goes along may be its arguments."""
        callee = [str(value[1]).partition(".")[0] for value in self.values.of(node.func) if value[0] == "ref"]
        if callee and all(one in _ONLY_LOOKS for one in callee):
            return
        texts: list[str] = []
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            for value in self.values.of(argument):
                items = value[1] if value[0] == "list" and isinstance(value[1], list) else [value]
                words = [as_text(item) for item in items if item[0] in ("text", "number")]
                texts += [*words, " ".join(words)] if len(words) > 1 else words
        if name in RUNS and texts:
            for text in texts:
                self.call.world.leniently(self._script, text)
        else:
            self._unresolved(f"hands {name} on to another function", ends=name in KILLS)

    def _mentioned(self, node: "Node") -> None:
        """A function that ends processes, put somewhere from where it may be called."""
        if type(node).__name__ == "Attribute" and node.attr in ("kill", "killpg"):
            for value in self.values.of(node):
                if value[0] == "ref" and value[1] in KILLS and not self._is_assigned(node):
                    self._unresolved(f"keeps {value[1]} for later", ends=True)

    def _is_assigned(self, node: "Node") -> bool:
        """Assigned to a name, or passed on: both are followed elsewhere."""
        for other in self.nodes:
            kind = type(other).__name__
            if kind in ("Assign", "NamedExpr", "AnnAssign") and other.value is node:
                return all(type(one).__name__ == "Name" for one in getattr(other, "targets", None) or [other.target])
            if kind == "Call" and (node in other.args or any(keyword.value is node for keyword in other.keywords)):
                return True
            if kind in ("Attribute", "Expr", "Delete", "Compare") and getattr(other, "value", None) is node:
                return True
            if kind == "Assign" and node in other.targets:
                return True
        return False

    def _opens(self, node: "Node") -> None:
        mode = self._argument(node, 1, "mode")
        modes = self.values.texts(mode) if mode is not None else ["r"]
        first = self._argument(node, 0, "file")
        for path in self.values.texts(first) if first is not None else ():
            if any(letter in text for text in modes for letter in "wax+"):
                self.rules.may_write(self.call.world, self.call.path(path), path)

    def _paths(self, node: "Node", judge: "Any") -> None:
        for argument in node.args[:2]:
            for path in self.values.texts(argument):
                judge(path)

    def _unresolved(self, what: str, ends: bool = False) -> None:
        self.call.world.unresolved(f"a python program {what}, which cannot be read", _PLAINLY, ends=ends)


def _is_ref(value: object) -> bool:
    return isinstance(value, tuple) and value[0] == "ref"
