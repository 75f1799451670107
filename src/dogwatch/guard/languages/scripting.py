"""Programs in perl, ruby, javascript, php, lua, awk and others, judged by the calls that they make.

There is no parser for each of these languages: strings and comments are told from names (`tokens`), and the call of a
name in the language's table (`grammars`) is judged by its arguments. What a call runs must be plain enough to be read.
"""

from dogwatch.guard.bash.call import Call
from dogwatch.guard.bash.files import FRAGMENT
from dogwatch.guard.bash.holes import DOGWATCH, FOUND, OWN, TAME, WILD, known, without_holes
from dogwatch.guard.bash.state import UNKNOWN, Io, Texts
from dogwatch.guard.languages.grammars import (
    CALLED_WITHOUT_BRACKETS,
    CALLS,
    CHANGES_FILES,
    EXECUTING_MODULES,
    GRAMMARS,
    LOOKS_UP,
    MAKES_CHILD,
    OWN_PIDS,
    SENSITIVE_OBJECTS,
    SIGNAL_FIRST,
)
from dogwatch.guard.languages.tokens import Token, Tokens

_STRINGS_MAX = 64
_MODULE_ENDS = (".js", ".mjs", ".cjs", ".ts", "/index.js", "/index.ts")
_ENDS_EXPRESSION = (("sign", ";"), ("line", "\n"), ("sign", "}"))
_NO_TOKEN: Token = ("line", "")


def judge_script(call: Call, language: str, code: str) -> None:
    """Denies a program that ends others' processes, or that runs what cannot be read."""
    if language not in GRAMMARS:
        language = "generic"
    tokens = Tokens(code, GRAMMARS[language]).found
    call.world.spend(len(tokens) // 4)
    _Program(call, language, code, tokens).judge()


class _Program:
    def __init__(self, call: Call, language: str, code: str, tokens: list[Token]) -> None:
        self.call = call
        self.rules = call.rules
        self.language = language
        self.code = code
        self.tokens = tokens
        self.calls = dict(CALLS[language])
        self.texts: dict[str, str] = {}
        """What is known of each variable's text."""
        self.children: set[str] = set()
        """Variables that hold a process of the program's own."""
        self.unknown = WILD
        """A pid that cannot be known: FOUND where the program asks for pids that may be anybody's."""
        if any(kind in ("text", "command") and text.startswith(LOOKS_UP) for kind, text in tokens):
            self.unknown = FOUND
        if not any(text == "Kill" or text.startswith("SIG") for _, text in tokens):
            self.calls.pop("FindProcess", None)  # it only asks whether somebody lives
        if language == "javascript":
            self._members()
        self._bind()
        self.modules = self._modules() if language == "javascript" else []

    def judge(self) -> None:
        for text in self.modules:
            if text.startswith(("./", "../")):
                self.rules.run_module(self.call, "javascript", (text, *(text + end for end in _MODULE_ENDS)))
        for at, (kind, text) in enumerate(self.tokens):
            if kind == "command":
                self._run(text)
            elif kind == "name" and text == "$" and self.language == "javascript":
                self._tagged(at + 1)
            elif kind == "name":
                self._name(at, text)
            elif (kind, text) == ("sign", ">") and self.language == "awk" and self._at(at + 1)[0] == "text":
                path = self._at(at + 1)[1]
                self.rules.may_write(self.call.world, self.call.path(path), path)
            elif kind == "sign" and text in ("|", "|&") and self.language == "awk":
                self._awk_pipe(at)
            elif kind == "sign" and text == "\\" and self.language == "javascript":
                self._unresolved("a name with escapes")
        self._disguises()
        self._written()
        if any(kind == "name" and text in CHANGES_FILES for kind, text in self.tokens):
            if ("name", "DOGWATCH_HOME") in self.tokens or ("text", "DOGWATCH_HOME") in self.tokens:
                self.rules.may_write(self.call.world, DOGWATCH, DOGWATCH)
            for kind, text in self.tokens:
                if kind == "text" and "/" in text:
                    self.rules.may_write(self.call.world, self.call.path(text.lstrip("<>+ ")), text)
            if any(kind == "name" and text.lower().lstrip("$@") == "argv" for kind, text in self.tokens):
                for word in self.call.args:
                    self.rules.may_write(self.call.world, self.call.path(word), word)

    def _written(self) -> None:
        """A file that the program writes may hold any of its texts."""
        texts = [text for kind, text in self.tokens if kind == "text" and text][:_STRINGS_MAX]
        names = {text for kind, text in self.tokens if kind == "name"}
        if len(texts) > 1 and (names & CHANGES_FILES or "write" in names or ("sign", ">") in self.tokens):
            for text in texts:
                path = text.lstrip("<>+ ")
                if path and not any(char.isspace() or char in "{}()" for char in path):
                    content = FRAGMENT + "\n".join(texts)
                    self.call.walker.write(self.call.path(path), (content,), True, self.call.shell)

    # What is known before anything is judged

    def _at(self, at: int) -> Token:
        return self.tokens[at] if 0 <= at < len(self.tokens) else _NO_TOKEN

    def _matching(self, at: int, opening: str, closing: str) -> int:
        level = 0
        start = at
        while at < len(self.tokens):
            text = self.tokens[at][1] if self.tokens[at][0] == "sign" else ""
            level += (text == opening) - (text == closing)
            if level == 0:
                break
            at += 1
        self.call.world.spend((at - start) // 32)
        return at

    def _members(self) -> None:
        """`a["b"]` is `a.b`."""
        made: list[Token] = []
        at = 0
        while at < len(self.tokens):
            before = made[-1] if made else _NO_TOKEN
            if self.tokens[at] == ("sign", "[") and (before[0] == "name" or before[1] in (")", "]")):
                end = self._matching(at, "[", "]")
                inside = self.tokens[at + 1 : end]
                value = self._value(inside)
                if value is not None and known(value) and value.isidentifier():
                    made += [("sign", "."), ("name", value)]
                    at = end + 1
                    continue
                is_number = len(inside) == 1 and inside[0][0] == "number"
                if before[1] in SENSITIVE_OBJECTS and not is_number:
                    self._unresolved("a member whose name is put together")
            made.append(self.tokens[at])
            at += 1
        self.tokens = made

    def _bind(self) -> None:
        """Variables that are given a text, a process of the program's own, or another name of a function."""
        for at, (kind, text) in enumerate(self.tokens):
            following = self._at(at + 1)
            if kind != "name":
                continue
            other = self._at(at + 2)
            if text in self.calls and following in (("name", "as"), ("sign", ":")) and other[0] == "name":
                self.calls[other[1]] = self.calls[text]
            if (
                text in ("forEach", "map", "of", "filter")
                and self._at(at - 2 if text != "of" else at + 1)[1] in self.children
            ):
                item = at - 1 if text == "of" else at + 2 + (self._at(at + 2)[1] == "(")
                self.children.add(self._at(item)[1])
            if following != ("sign", "="):
                continue
            end = at + 2
            while end < len(self.tokens) and self.tokens[end] not in (*_ENDS_EXPRESSION, ("sign", ",")):
                end += 1 if self.tokens[end][1] not in ("(", "[") else self._matching_any(end) - end + 1
            self.call.world.spend((end - at) // 32)
            value = self.tokens[at + 2 : end]
            if any(one[0] == "name" and one[1] in MAKES_CHILD for one in value):
                self.children.add(text.lstrip("$@"))
            if value and value[-1][0] == "name" and value[-1][1] in self.calls:
                self.calls[text] = self.calls[value[-1][1]]
            if any(one[0] == "text" for one in value):
                name = text.lstrip("$@")
                self.texts[name] = WILD if name in self.texts else self._value(value) or WILD

    def _matching_any(self, at: int) -> int:
        opening = self.tokens[at][1]
        return self._matching(at, opening, ")" if opening == "(" else "]")

    def _modules(self) -> list[str]:
        """What is required or imported; a name that is put together is refused."""
        found = [text for kind, text in self.tokens if kind == "text"]
        for at, token in enumerate(self.tokens):
            if token in (("name", "require"), ("name", "import")) and self._at(at + 1) == ("sign", "("):
                arguments = self._arguments(at + 1)
                value = self._value(arguments[0]) if arguments else ""
                if value is None or not known(value):
                    self._unresolved("a module whose name is put together")
                else:
                    found.append(value)
        return [text.removeprefix("node:") for text in found]

    def _value(self, tokens: list[Token]) -> str | None:
        """The text that an expression of strings and variables makes; None where there is no text in it."""
        made = ""
        has_text = False
        for kind, text in tokens:
            if kind == "text":
                made += text
                has_text = True
            elif kind == "name" and text.lstrip("$@") in self.texts:
                made += self.texts[text.lstrip("$@")]
                has_text = True
            elif kind == "number" or (kind == "name" and text not in ("new", "String")):
                made += TAME
            elif (kind, text) == ("sign", ","):
                made += " "
            elif kind == "sign" and text not in ("+", ".", "..", "(", ")", "~", "&", "[", "]"):
                made += TAME
        return made if has_text else None

    def _arguments(self, at: int) -> list[list[Token]]:
        """The arguments of the call whose name stands before `at`, each as its tokens."""
        bracketed = self._at(at) == ("sign", "(")
        end = self._matching(at, "(", ")") if bracketed else at
        while not bracketed and end < len(self.tokens) and self.tokens[end] not in _ENDS_EXPRESSION:
            end = self._matching(end, "{", "}") + 1 if self.tokens[end] == ("sign", "{") else end + 1
        self.call.world.spend((end - at) // 32)
        found: list[list[Token]] = [[]]
        level = 0
        for kind, text in self.tokens[at + 1 if bracketed else at : end]:
            if kind == "sign" and text in "([{":
                level += 1
            elif kind == "sign" and text in ")]}":
                level -= 1
            if kind == "sign" and text in (",", "=>") and level == 0:
                found.append([])
            elif kind != "line":
                found[-1].append((kind, text))
        return [argument for argument in found if argument]

    # Calls

    def _name(self, at: int, name: str) -> None:
        following, before = self._at(at + 1), self._at(at - 1)
        if self.language == "php" and name.startswith("$") and following == ("sign", "("):
            self._called_by_text(at, name)
            return
        kind = self.calls.get(name)
        defined = before[1] in ("function", "def", "sub", "import", "use", "class", "as")
        unpacked = self.language == "javascript" and before[1] == "{" and following[1] != "("
        if kind is None or defined or unpacked:
            return
        if self.language == "javascript" and kind == "shell" and not self._can_execute():
            return  # the `exec` of a pattern
        if following[1] != "(" and self.language not in CALLED_WITHOUT_BRACKETS and kind != "eval":
            if kind == "kill" and before[1] == "." and self._at(at - 2)[1] in SENSITIVE_OBJECTS and following[1] != "=":
                self._unresolved("a function that ends processes, handed on")
            return
        is_key = following[1] == ":" and (self.language != "ruby" or before[1] in ("{", ",", "("))
        if following[0] == "sign" and (is_key or following[1] in ("=", "=>", "->")):
            return
        if self.language == "lisp":
            start = at - 1
            while self._at(start)[1] in (":", "::", "/", "."):
                start -= 2  # the name of a package
            if self._at(start)[1] != "(":
                return
            arguments = [self.tokens[at + 1 : self._matching(start, "(", ")")]]
        else:
            arguments = self._arguments(at + 1)
        if kind == "kill":
            self._kill(at, arguments)
        elif kind == "never":
            self._unresolved(f"`{name}`, which can do anything")
        elif kind == "strings" and before[1] == "." and (self._at(at - 2)[0] == "text" or self._at(at - 2)[1] == "]"):
            self._strings([self._list_before(at - 2)])  # groovy: `"command".execute()`
        elif arguments:
            if kind == "strings" and name in ("new", "Command"):
                end = at
                while end < len(self.tokens) and self.tokens[end] != ("sign", ";"):
                    end += 1
                arguments = [self.tokens[at:end]]  # its words may be given by calls that follow
            ways = {"eval": self._eval, "open": self._open, "strings": self._strings, "words": self._words}
            ways.get(kind, self._shell)(arguments)

    def _list_before(self, end: int) -> list[Token]:
        """The text that ends there, or the list of texts."""
        start = end
        while self._at(end)[1] == "]" and self._at(start)[1] != "[" and start > end - _STRINGS_MAX:
            start -= 1
        return self.tokens[max(start, 0) : end + 1]

    def _tagged(self, start: int) -> None:
        """zx: $`command ${value}`. The tokens of the values stand before the text, each behind a `;`."""
        end = start
        while self._at(start)[0] == "name" and end < start + _STRINGS_MAX:
            end += 1
            if self._at(end)[0] == "text" and self._at(end - 1) == ("sign", ";"):
                break
        kind, text = self._at(end)
        if kind == "text":
            self._run(text.replace(TAME, OWN) if self._is_own(self.tokens[start : end - 1]) else text)

    def _called_by_text(self, at: int, name: str) -> None:
        """PHP calls the function that a variable names."""
        function = self.texts.get(name.lstrip("$"), WILD)
        if self.calls.get(function) == "shell":
            self._shell(self._arguments(at + 1))
        elif not known(function) or function in self.calls:
            self._unresolved("a function that is called by its name in a text")

    def _can_execute(self) -> bool:
        return any(module in self.modules or module in self.code for module in EXECUTING_MODULES)

    def _shell(self, arguments: list[list[Token]]) -> None:
        """A script, or a program with its words."""
        if self.language == "ruby" and arguments[0][0] == ("sign", "{"):
            arguments = arguments[1:]
        elif self.language == "perl" and arguments[0][0] == ("sign", "{") and ("sign", "}") in arguments[0]:
            arguments = [arguments[0][arguments[0].index(("sign", "}")) + 1 :], *arguments[1:]]
        if not arguments:
            return
        first = self._value(arguments[0])
        if first is None or not without_holes(first).strip():
            self._unresolved("a command that is put together")
            return
        second = arguments[1] if len(arguments) > 1 else []
        is_words = self.language in ("perl", "ruby", "php") and len(arguments) > 1
        if arguments[0][0] == ("sign", "["):
            self.call.run([text for kind, text in arguments[0] if kind == "text"], self.call.shell.copy())
        elif second and (
            second[0] == ("sign", "[")
            or ("name", "args") in second
            or (len(second) == 1 and second[0][1] in self.texts)
        ):
            words = [text for kind, text in second if kind == "text"] or (self._value(second) or "").split()
            self.call.run([first, *words], self.call.shell.copy())
        elif is_words and second[0][0] != "sign":
            values = [self._value(argument) for argument in arguments[1:]]
            self.call.run([first, *(WILD if value is None else value for value in values)], self.call.shell.copy())
        else:
            self._run(first)

    def _run(self, text: str, stdin: Texts | None = None) -> None:
        self.call.code(text, self.call.shell.copy(), Io(stdin))

    def _words(self, arguments: list[list[Token]]) -> None:
        words = [
            text for argument in arguments for kind, text in argument if kind in ("text", "name", "number", "sign")
        ]
        self._run(_joined(words))

    def _strings(self, arguments: list[list[Token]]) -> None:
        """Of a language that is not known: every string in the call may be a command."""
        texts = [text for argument in arguments for kind, text in argument if kind == "text"][:_STRINGS_MAX]
        for text in (*texts, " ".join(texts)):
            self.call.world.leniently(self._run, text)

    def _open(self, arguments: list[list[Token]]) -> None:
        """Perl's `open` runs a command where there is a `|`."""
        values = [self._value(argument) or "" for argument in arguments]
        for at, value in enumerate(values):
            if value in ("-|", "|-"):
                words = values[at + 1 :]
                self._run(words[0]) if len(words) == 1 else self.call.run(words, self.call.shell.copy())
            elif value.startswith("|") or value.endswith("|"):
                self._run(value.strip("| "))

    def _eval(self, arguments: list[list[Token]]) -> None:
        if arguments[0][0] == ("sign", "{"):
            return
        value = self._value(arguments[-1] if self.language == "javascript" else arguments[0])
        if value is None or not known(value):
            self._unresolved("a program that is put together")
        else:
            self.call.world.enter()
            judge_script(self.call, self.language, value)
            self.call.world.leave()

    def _kill(self, at: int, arguments: list[list[Token]]) -> None:
        """Sending a signal: to oneself, to a child, or signal 0 to ask whether somebody lives."""
        if not arguments or self._is_childs_own(at, arguments):
            return
        signal_first = self.language in SIGNAL_FIRST
        signals = arguments[:1] if signal_first else arguments[1:2]
        if signals and signals[0] in ([("number", "0")], [("text", "0")]):
            return
        for target in arguments[1:] if signal_first else arguments[:1]:
            if not self._is_own(target):
                text = target[0][1] if len(target) == 1 and target[0][0] in ("number", "text") else self.unknown
                self.rules.judge_target(self.call, text)

    def _is_childs_own(self, at: int, arguments: list[list[Token]]) -> bool:
        """A method of a process object takes a signal at most, and no pid."""
        if self.language not in ("javascript", "generic") or self._at(at - 1)[1] not in (".", "?."):
            return False
        only_signal = len(arguments) == 1 and len(arguments[0]) == 1 and arguments[0][0][0] == "text"
        return self._at(at - 2)[1] not in SENSITIVE_OBJECTS and only_signal

    def _is_own(self, target: list[Token]) -> bool:
        names = [text.lstrip("$@") for kind, text in target if kind == "name"]
        if any(text in OWN_PIDS for _, text in target) or (len(names) == 1 and names[0] in self.children):
            return True
        if self.language == "compiled":  # `cmd.Process.Pid` of go, `child.id()` of rust
            return names[-2:] == ["Process", "Pid"] or ("id" in names and bool(self.children & set(names)))
        return (
            len(names) == 2 and names[1] == "pid" and (names[0] in self.children or names[0] in ("process", "Process"))
        )

    def _awk_pipe(self, at: int) -> None:
        """`"command" | getline` and `print text | "command"`."""
        start = at
        while start and self.tokens[start - 1][1] not in (";", "{", "}", "\n"):
            start -= 1
        if self._at(at + 1) == ("name", "getline"):
            before = self.tokens[start:at]
            value = self._value(before[1:] if before and before[0][1] in ("while", "if") else before)
            printed: Texts | None = None
        else:
            end = at + 1
            while end < len(self.tokens) and self.tokens[end] not in _ENDS_EXPRESSION:
                end += 1
            value = self._value(self.tokens[at + 1 : end])
            text = self._value(self.tokens[start + 1 : at])
            printed = UNKNOWN if text is None else (text,)
        if value is None or not without_holes(value).strip():
            self._unresolved("a command that is put together")
        else:
            self._run(value, printed)

    def _disguises(self) -> None:
        """Ways to call a function without naming it."""
        names = {text for kind, text in self.tokens if kind == "name"}
        texts = {text for kind, text in self.tokens if kind == "text"}
        by_text = {
            "javascript": {"Reflect"},
            "ruby": {"send", "__send__", "public_send", "method"},
            "php": {"call_user_func", "call_user_func_array"},
        }.get(self.language, set())
        hidden = bool(names & by_text) and any(name in self.calls for name in names | texts)
        if self.language == "perl":
            hidden = "&{" in self.code or "&$" in self.code or "CORE" in names
        if hidden:
            self._unresolved("a function that is called by its name in a text")

    def _unresolved(self, what: str) -> None:
        self.call.world.unresolved(
            f"a {self.language} program runs {what}, which cannot be read", "write it plainly, or run it with the shell"
        )


def _joined(words: list[str]) -> str:
    """Words of tcl as text again: `-` and `/` stick to their neighbours."""
    made = ""
    for word in words:
        glued = word in ("-", "/", ".", "_") or made[-1:] in ("-", "/", ".", "_")
        made += word if glued or not made else f" {word}"
    return made
