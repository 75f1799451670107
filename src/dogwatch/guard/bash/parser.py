"""Reads bash: text in, a tree of commands out. What it cannot read is a ParseError, never a guess."""

from dogwatch.guard.bash.elements import Elements
from dogwatch.guard.bash.lexer import META
from dogwatch.guard.bash.lookahead import closing
from dogwatch.guard.bash.tree import (
    AndOr,
    Assignment,
    Calculation,
    Case,
    Command,
    Coprocess,
    For,
    Function,
    Group,
    If,
    Literal,
    Pipeline,
    Redirect,
    Script,
    Simple,
    Test,
    While,
    Word,
)
from dogwatch.guard.verdict import ParseError

_DECLARE = ("declare", "export", "local", "readonly", "typeset", "alias", "eval", "let")
_ENDS = ("then", "else", "elif", "fi", "do", "done", "esac", "}", "in")
_COMPOUND = ("if", "while", "until", "for", "select", "case", "{", "[[", "function", "coproc")
_NO_COMMAND = Script((), ())


class Parser(Elements):
    """Commands, read from a text."""

    def nested(self, text: str) -> "Parser":
        return Parser(text, self.depth + 1, self.counter)

    def whole(self) -> Script:
        script = self._script()
        if self.at < len(self.text):
            raise ParseError(f"there is a {self._shown()} where no command can be")
        self._here_documents()
        return script

    def substitution(self) -> Script:
        self.deeper()
        outer, self._pending = self._pending, []
        script = self._script()
        if self._pending or self.peek() != ")":
            raise ParseError("a `(` is never closed")
        self._pending = outer
        self.at += 1
        self.depth -= 1
        return script

    def _reserved(self) -> str:
        """The bare word at this place if it may be a reserved one."""
        text, at = self.text, self.at
        while at < len(text) and at - self.at < 10 and text[at] not in META:
            at += 1
        return text[self.at : at]

    def _expect(self, word: str) -> None:
        self._newlines()
        if self._reserved() != word:
            raise ParseError(f"`{word}` is missing")
        self.at += len(word)

    def _script(self) -> Script:
        """Commands up to a closing parenthesis, a `;;`, a reserved word that ends a list, or the end."""
        commands: list[Command] = []
        background: list[bool] = []
        while True:
            self._newlines()
            if self._at_end():
                break
            commands.append(self._and_or())
            self._blanks()
            char, two = self.peek(), self.text[self.at : self.at + 2]
            background.append(char == "&" and two != "&&")
            if (char == ";" and two != ";;" and two != ";&") or background[-1]:
                self.at += 1
            elif char != "\n":
                break
        return Script(tuple(commands), tuple(background))

    def _at_end(self) -> bool:
        char = self.peek()
        if char == "" or char == ")" or (char == ";" and self.peek(1) in (";", "&")):
            return True
        return self._reserved() in _ENDS

    def _body(self) -> Script:
        """A list that must hold at least one command."""
        script = self._script()
        if not script.commands:
            raise ParseError(f"there is no command before {self._shown()}")
        return script

    def _and_or(self) -> Command:
        commands = [self._pipeline()]
        ops: list[str] = []
        while True:
            self._blanks()
            two = self.text[self.at : self.at + 2]
            if two not in ("&&", "||"):
                return commands[0] if not ops else AndOr(tuple(commands), tuple(ops))
            self.at += 2
            ops.append(two)
            self._newlines()
            commands.append(self._pipeline())

    def _pipeline(self) -> Command:
        self._blanks()
        while True:
            word = self._reserved()
            if word == "!" or (self.peek() == "!" and self.peek(1) == "("):
                self.at += 1
            elif word == "time":
                self.at += 4
                self._blanks()
                if self._reserved() == "-p":
                    self.at += 2
            else:
                break
            self._blanks()
            if self.peek() in ("", "\n", ";", "&", ")"):
                return _NO_COMMAND
        commands = [self._command()]
        merged: list[bool] = []
        while True:
            self._blanks()
            if self.peek() != "|" or self.peek(1) == "|":
                break
            merged.append(self.peek(1) == "&")
            self.at += 2 if merged[-1] else 1
            self._newlines()
            commands.append(self._command())
        return commands[0] if not merged else Pipeline(tuple(commands), tuple(merged))

    def _command(self) -> Command:
        char = self.peek()
        word = self._reserved()
        if char != "(" and word not in _COMPOUND:
            if word in _ENDS and word != "in":
                raise ParseError(f"there is a `{word}` where no command can be")
            return self._simple()
        self.deeper()
        command = self._parentheses() if char == "(" else self._compound(word)
        self.depth -= 1
        redirects: list[Redirect] = []
        while True:
            self._blanks()
            if not self._redirect(redirects):
                break
        command.redirects += tuple(redirects)
        return command

    def _parentheses(self) -> Command:
        if self.peek(1) == "(":
            self.at += 1
            end = self.calculates()
            if end >= 0:
                calculation = Calculation(self.calculation(self.at + 1, end))
                self.at = end + 2
                return calculation
            self.at -= 1
        self.at += 1
        body = self._body()
        if self.peek() != ")":
            raise ParseError("a `(` is never closed")
        self.at += 1
        return Group(body, True)

    def _compound(self, word: str) -> Command:
        self.at += len(word)
        if word == "{":
            body = self._body()
            self._expect("}")
            return Group(body, False)
        if word == "if":
            return self._if()
        if word in ("while", "until"):
            return While(self._body(), self._loop_body())
        if word in ("for", "select"):
            return self._for()
        if word == "case":
            return self._case()
        if word == "[[":
            return self._test()
        if word == "function":
            return self._function()
        return self._coprocess()

    def _if(self) -> If:
        branches: list[tuple[Script, Script]] = []
        while True:
            condition = self._body()
            self._expect("then")
            branches.append((condition, self._body()))
            self._newlines()
            word = self._reserved()
            if word == "elif":
                self.at += 4
                continue
            otherwise = None
            if word == "else":
                self.at += 4
                otherwise = self._body()
            self._expect("fi")
            return If(tuple(branches), otherwise)

    def _loop_body(self) -> Script:
        self._newlines()
        if self._reserved() == "{":
            self.at += 1
            body = self._body()
            self._expect("}")
            return body
        self._expect("do")
        body = self._body()
        self._expect("done")
        return body

    def _for(self) -> Command:
        self._blanks()
        if self.text.startswith("((", self.at):
            self.at += 1
            end = closing(self.text, self.at, self.counter)
            if end < 0 or self.text[end + 1 : end + 2] != ")":
                raise ParseError("a `for ((` is never closed")
            head = self.calculation(self.at + 1, end)
            self.at = end + 2
            self._separator()
            return While(_NO_COMMAND, self._loop_body(), (head,))
        name = self.name()
        if not name:
            raise ParseError("`for` names no variable")
        self._newlines()
        words: list[Word] | None = None
        if self._reserved() == "in":
            self.at += 2
            words = []
            self._blanks()
            while self.peek() not in ("", "\n", ";"):
                words.append(self._one_word())
                self._blanks()
        self._separator()
        return For(name, None if words is None else tuple(words), self._loop_body())

    def _separator(self) -> None:
        self._blanks()
        if self.peek() == ";":
            self.at += 1
        self._newlines()

    def _case(self) -> Case:
        self._blanks()
        subject = self._one_word()
        self._expect("in")
        clauses: list[tuple[tuple[Word, ...], Script, str]] = []
        while True:
            self._newlines()
            if self._reserved() == "esac":
                self.at += 4
                return Case(subject, tuple(clauses))
            if self.peek() == "(":
                self.at += 1
            patterns: list[Word] = []
            while True:
                self._blanks()
                patterns.append(self._one_word())
                self._blanks()
                if self.peek() != "|":
                    break
                self.at += 1
            if self.peek() != ")":
                raise ParseError("a pattern of `case` has no `)`")
            self.at += 1
            body = self._script()
            self._blanks()
            end = next((op for op in (";;&", ";;", ";&") if self.text.startswith(op, self.at)), "")
            self.at += len(end)
            clauses.append((tuple(patterns), body, end or ";;"))
            if not end:
                self._expect("esac")
                return Case(subject, tuple(clauses))

    def _test(self) -> Test:
        words: list[Word] = []
        regex = False
        while True:
            self._newlines()
            if self._reserved() == "]]":
                self.at += 2
                return Test(tuple(words))
            two = self.text[self.at : self.at + 2]
            if two in ("&&", "||"):
                self.at += 2
            elif self.peek() in ("(", ")", "<", ">") and not regex and two not in ("<(", ">("):
                self.at += 1
            elif regex:
                words.append(self._regex())
                regex = False
            else:
                words.append(self._one_word())
                regex = words[-1].bare() == "=~"

    def _regex(self) -> Word:
        """The right side of `=~`, where brackets and bars belong to the word."""
        parts = list(self.word().parts)
        while self.peek() in ("(", ")", "|", "<", ">", "&", ";"):
            if self.text[self.at : self.at + 2] in ("&&", "||") or self.peek() == ";":
                break
            parts.append(Literal(self.peek(), True))
            self.at += 1
            parts += self.word().parts
        if not parts:
            raise ParseError("there is nothing behind `=~`")
        return Word(tuple(parts))

    def _function(self) -> Function:
        self._blanks()
        name = self._one_word().bare()
        self._blanks()
        if self.peek() == "(":
            self._empty_parentheses()
        return self._function_body(name)

    def _empty_parentheses(self) -> None:
        self.at += 1
        self._blanks()
        if self.peek() != ")":
            raise ParseError("there is a `(` where none can be")
        self.at += 1

    def _function_body(self, name: str) -> Function:
        self._newlines()
        if not name or not (self.peek() == "(" or self._reserved() in _COMPOUND):
            raise ParseError("a function has no name or no body")
        return Function(name, self._command())

    def _coprocess(self) -> Coprocess:
        self._blanks()
        start = self.at
        name = self.name()
        self._blanks()
        if name and (self.peek() == "(" or self._reserved() in _COMPOUND):
            return Coprocess(name, self._command())
        self.at = start
        return Coprocess("COPROC", self._command())

    def _simple(self) -> Command:
        self.counter.count()
        assignments: list[Assignment] = []
        words: list[Word | Assignment] = []
        redirects: list[Redirect] = []
        declares = False
        while True:
            self._blanks()
            char = self.peek()
            if char == "" or (char in "\n;|)") or (char == "&" and self.peek(1) != ">"):
                break
            if self._redirect(redirects):
                continue
            if not words or declares:
                assignment = self._assignment()
                if assignment is not None:
                    if words:
                        words.append(assignment)
                    else:
                        assignments.append(assignment)
                    continue
            if char == "(":
                name = words[0].bare() if len(words) == 1 and isinstance(words[0], Word) else ""
                if not name or assignments or redirects:
                    raise ParseError("there is a `(` where none can be")
                self._empty_parentheses()
                return self._function_body(name)
            word = self._one_word()
            words.append(word)
            declares = declares or (len(words) == 1 and word.bare() in _DECLARE)
        if not (assignments or words or redirects):
            raise ParseError(f"there is no command before {self._shown()}")
        return Simple(tuple(assignments), tuple(words), tuple(redirects))
