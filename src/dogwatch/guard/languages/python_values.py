"""What the expressions of a python program are worth, as far as its text tells.

Every variable may be whatever is assigned to it anywhere in the program, and a parameter whatever is passed to it.
"""

from dogwatch.guard.bash.holes import DOGWATCH, TAME, WILD
from dogwatch.guard.languages.python_calls import called
from dogwatch.guard.languages.python_texts import KEPT, RISKY, UNKNOWN, Value, as_text, combined, member, method

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Node = Any

HOLE = "_hole_"
_ALTERNATIVES_MAX = 8
_DEPTH_MAX = 24
_HANDING = frozenset("map imap imap_unordered filter submit apply_async Thread Process Timer to_thread partial".split())


class Values:
    """The values of one program."""

    def __init__(self, nodes: "list[Node]", argv: list[str]) -> None:
        self.argv = argv
        """What the program is given: `sys.argv`, where that is known."""
        self.bound: dict[str, list[Node | Value]] = {}
        self.functions: dict[str, Node] = {}
        self.local: dict[str, Value] = {}
        self.grown: dict[str, list[Node | Value]] = {}
        """What is added to a variable after it was bound."""
        self.stars: list[str] = []
        """Modules of which everything was imported."""
        self.steps = 0
        self.found: dict[str, list[Value]] = {}
        """What was found of each variable; while it is looked for, what was found so far."""
        for node in nodes:
            getattr(self, f"_bind_{type(node).__name__.lower()}", _nothing)(node)
        # A comprehension's variable is its own: it says nothing of another one of that name.
        inner = [node for node in nodes if type(node).__name__ == "comprehension"]
        for node in [node for node in inner if getattr(node.target, "id", "") not in self.bound]:
            self._add_each(node.target, node.iter)
        for node in nodes:
            if type(node).__name__ == "Call":
                self._bind_call(node)
                self._bind_handed(node)

    # What is bound to which name

    def _add(self, name: str, value: "Node | Value") -> None:
        self.bound.setdefault(name, []).append(value)

    def _bind_import(self, node: "Node") -> None:
        for alias in node.names:
            self._add(
                alias.asname or alias.name.partition(".")[0],
                ("ref", alias.name if alias.asname else alias.name.partition(".")[0]),
            )

    def _bind_importfrom(self, node: "Node") -> None:
        for alias in node.names:
            if alias.name == "*":
                self.stars.append(node.module or "")
            self._add(alias.asname or alias.name, ("ref", f"{node.module or ''}.{alias.name}"))

    def _bind_assign(self, node: "Node") -> None:
        for target in node.targets:
            self._target(target, node.value)

    def _bind_annassign(self, node: "Node") -> None:
        if node.value is not None:
            self._target(node.target, node.value)

    _bind_namedexpr = _bind_annassign

    def _bind_augassign(self, node: "Node") -> None:
        """`x += more`: kept in order, and put together when x is asked for."""
        if type(node.target).__name__ == "Name" and type(node.op).__name__ == "Add":
            self.grown.setdefault(node.target.id, []).append(node.value)
        else:
            self._target(node.target, UNKNOWN)

    def _bind_for(self, node: "Node") -> None:
        self._add_each(node.target, node.iter)

    def _add_each(self, target: "Node", source: "Node") -> None:
        """The target of a loop may be each item; of a dictionary each key or value."""
        method = getattr(getattr(source, "func", None), "attr", "")
        base = source.func.value if method in ("items", "values", "keys") else source
        for node in self.bound.get(base.id, []) if type(base).__name__ == "Name" else [base]:
            if type(node).__name__ == "Dict":
                literal: Node = node
                for key, value in list(zip(literal.keys, literal.values, strict=False))[:50]:
                    self._each_of_dict(target, method, key, value)
            elif hasattr(node, "elts"):
                for item in node.elts[:50]:
                    self._target(target, item)
            else:
                self._target(target, ("each", node))

    def _each_of_dict(self, target: "Node", method: str, key: "Node", value: "Node") -> None:
        if method == "items" and hasattr(target, "elts") and len(target.elts) == 2:
            self._target(target.elts[0], key or UNKNOWN)
            self._target(target.elts[1], value)
        else:
            self._target(target, value if method == "values" else key or UNKNOWN)

    _bind_asyncfor = _bind_for

    def _bind_withitem(self, node: "Node") -> None:
        if node.optional_vars is not None:
            self._target(node.optional_vars, node.context_expr)

    def _bind_functiondef(self, node: "Node") -> None:
        self.functions[node.name] = node
        names = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        for argument in names:
            self.bound.setdefault(argument.arg, [])
        positional = [*node.args.posonlyargs, *node.args.args]
        for argument, default in zip(reversed(positional), reversed(node.args.defaults), strict=False):
            self._add(argument.arg, default)
        for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=False):
            if default is not None:
                self._add(argument.arg, default)

    _bind_asyncfunctiondef = _bind_functiondef

    def _bind_call(self, node: "Node") -> None:
        """What is passed to a function of the program is what its parameters may be; lists grow by their methods."""
        owner = getattr(getattr(node.func, "value", None), "id", "")
        if owner and getattr(node.func, "attr", "") in ("append", "extend") and node.args:
            item = node.args[0]
            self.grown.setdefault(owner, []).append(("one", item) if node.func.attr == "append" else item)
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        function = self.functions.get(name)
        of_module = any(isinstance(one, tuple) and one[0] == "ref" for one in self.bound.get(owner, []))
        if function is None or of_module:
            return
        names = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
        if names[:1] in (["self"], ["cls"]):
            names = names[1:]
        for parameter, value in zip(names, node.args, strict=False):
            self._add(parameter, value)
        if function.args.vararg is not None:
            self._add(function.args.vararg.arg, ("all", node.args[len(names) :]))
        for keyword in node.keywords:
            if keyword.arg:
                self._add(keyword.arg, keyword.value)

    def _bind_handed(self, node: "Node") -> None:
        """`pool.map(function, items)`, `submit(function, item)`, `Thread(target=function, args=(item,))`."""
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        function: Node = given.get("target", node.args[0] if node.args else None)
        if type(function).__name__ == "Name":
            function = self.functions.get(function.id)
        if name not in _HANDING or type(function).__name__ not in ("Lambda", "FunctionDef", "AsyncFunctionDef"):
            return
        items = getattr(given.get("args"), "elts", node.args[1:])
        for parameter, item in zip(function.args.args, items, strict=False):
            self._add(parameter.arg, ("each", item) if "map" in name else item)

    def _target(self, target: "Node", value: "Node | Value") -> None:
        kind = type(target).__name__
        if kind == "Name":
            self._add(target.id, value)
        elif kind in ("Tuple", "List"):
            values = getattr(value, "elts", None)
            for number, one in enumerate(target.elts):
                self._target(one, values[number] if values is not None and number < len(values) else UNKNOWN)

    # What an expression is worth

    def of(self, node: "Node | Value", depth: int = 0) -> list[Value]:
        """What the expression may be; UNKNOWN among others where that is not certain."""
        if isinstance(node, tuple):
            if node[0] == "all" and isinstance(node[1], list):
                return [("list", [self.of(one, depth + 1)[0] for one in node[1][:50]])]
            return self._of_each(node[1], depth + 1) if node[0] == "each" else [node]
        self.steps += 1
        if depth > _DEPTH_MAX or self.steps > 20_000:
            return [UNKNOWN]
        found: list[Value] = getattr(self, f"_of_{type(node).__name__.lower()}", self._of_other)(node, depth + 1)
        if self.argv and found == [("ref", "sys.argv")]:
            return [("list", [("text", word) for word in self.argv[:200]])]
        return (
            found[:_ALTERNATIVES_MAX] if len(found) <= _ALTERNATIVES_MAX else [*found[: _ALTERNATIVES_MAX - 1], UNKNOWN]
        )

    def texts(self, node: "Node", depth: int = 0) -> list[str]:
        """The texts that the expression may be; WILD for what is no text."""
        return [as_text(value) for value in self.of(node, depth)]

    def _of_other(self, node: "Node", depth: int) -> list[Value]:
        return [UNKNOWN]

    def _of_constant(self, node: "Node", depth: int) -> list[Value]:
        value = node.value
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        if isinstance(value, str):
            return [("text", value.replace(HOLE, TAME))]
        return [("number", value)] if type(value) is int else [UNKNOWN]

    def _of_joinedstr(self, node: "Node", depth: int) -> list[Value]:
        made = [""]
        for part in node.values:
            inner = part.value if type(part).__name__ == "FormattedValue" else part
            texts = [text if text != WILD else TAME for text in self.texts(inner, depth)]
            made = [one + text for one in made for text in texts][:_ALTERNATIVES_MAX]
        return [("text", text) for text in made]

    def _of_binop(self, node: "Node", depth: int) -> list[Value]:
        return [
            combined(type(node.op).__name__, left, right)
            for left in self.of(node.left, depth)
            for right in self.of(node.right, depth)
        ]

    def _of_name(self, node: "Node", depth: int) -> list[Value]:
        if node.id in self.local:
            return [self.local[node.id]]
        if node.id == HOLE:
            return [("text", TAME)]
        if node.id not in self.bound:
            return [("ref", node.id), *(("ref", f"{module}.{node.id}") for module in self.stars)]
        if node.id in self.found:
            return self.found[node.id] or [UNKNOWN]
        values = self.found[node.id] = []
        others = [one for one in self.bound[node.id] if getattr(one, "id", "") != node.id]
        for one in others[:_ALTERNATIVES_MAX]:
            values += self.of(one, depth)
        if node.id in self.grown:
            values += [self._grown(value, node.id, depth) for value in values]
        if depth > _DEPTH_MAX // 2 or self.local:
            del self.found[node.id]  # it may have been cut short
        return values or [UNKNOWN]

    def _grown(self, value: Value, name: str, depth: int) -> Value:
        for more in self.grown[name][:50]:
            if isinstance(more, tuple):
                value = combined("Add", value, ("list", self.of(more[1], depth)[:1]))
            else:
                value = combined("Add", value, self.of(more, depth)[0])
        return value

    def _of_each(self, source: "Node", depth: int) -> list[Value]:
        """What a loop over the source gives."""
        found: list[Value] = []
        for value in self.of(source, depth):
            if value[0] == "list" and isinstance(value[1], list):
                found += value[1]
            else:
                found.append(value if value[0] in KEPT else UNKNOWN)
        return found or [UNKNOWN]

    def _of_attribute(self, node: "Node", depth: int) -> list[Value]:
        return [member(value, node.attr) for value in self.of(node.value, depth)]

    def _of_subscript(self, node: "Node", depth: int) -> list[Value]:
        found: list[Value] = []
        for base in self.of(node.value, depth):
            if type(node.slice).__name__ == "Slice":
                found.append(self._sliced(base, node.slice, depth))
            else:
                found += [self._item(base, key, depth) for key in self.of(node.slice, depth)]
        return found

    def _item(self, base: Value, key: Value, depth: int) -> Value:
        kind, content = base
        if kind == "ref" and key[0] == "text":
            name = str(content)
            if name == "sys.modules":
                return ("ref", key[1])
            if name.endswith(".__dict__"):
                return ("ref", f"{name[:-9]}.{key[1]}")
            if name == "os.environ":
                return ("text", DOGWATCH if key[1] == "DOGWATCH_HOME" else TAME)
            if name in ("globals", "locals"):
                values = self.bound.get(str(key[1]))
                return self.of(values[0], depth)[0] if values else ("ref", key[1])
        if kind == "ref" and str(content).split(".")[0] in RISKY:
            return ("ref", f"{content}.{WILD}")
        if kind in ("list", "text") and key[0] == "number":
            items = content if isinstance(content, list) else [("text", char) for char in str(content)]
            number = key[1] if isinstance(key[1], int) else 0
            return items[number] if -len(items) <= number < len(items) else UNKNOWN
        if kind == "ref" and content == "plumbum.local" and key[0] == "text":
            return ("ref", f"plumbum.cmd.{key[1]}")
        return base if kind in KEPT else UNKNOWN

    def _sliced(self, base: Value, node: "Node", depth: int) -> Value:
        bounds: list[int | None] = []
        for one in (node.lower, node.upper, node.step):
            value = self.of(one, depth)[0] if one is not None else None
            if value is not None and value[0] != "number":
                return UNKNOWN
            bounds.append(None if value is None else int(str(value[1])))
        content = base[1]
        if bounds[2] == 0 or not isinstance(content, str | list) or base[0] not in ("text", "list"):
            return UNKNOWN
        return (base[0], content[slice(*bounds)])

    def _of_list(self, node: "Node", depth: int) -> list[Value]:
        items: list[Value] = []
        for one in node.elts[:200]:
            if type(one).__name__ == "Starred":
                inner = self.of(one.value, depth)[0]
                items += inner[1] if inner[0] == "list" and isinstance(inner[1], list) else [UNKNOWN]
            else:
                values = self.of(one, depth)
                items.append(values[0] if len(values) == 1 else ("choice", values))
        return [("list", items)]

    _of_tuple = _of_list
    _of_set = _of_list

    def _of_listcomp(self, node: "Node", depth: int) -> list[Value]:
        """A comprehension over values that are known."""
        if len(node.generators) != 1:
            return [UNKNOWN]
        generator = node.generators[0]
        source = self.of(generator.iter, depth)[0]
        if generator.ifs or source[0] in KEPT:
            return [source if source[0] in KEPT else UNKNOWN]
        if source[0] not in ("list", "text") or type(generator.target).__name__ != "Name":
            one = self.of(node.elt, depth)[0]
            return [one if one[0] == "own" else UNKNOWN]
        content = source[1]
        items = content if isinstance(content, list) else [("text", char) for char in str(content)]
        made: list[Value] = []
        before = self.local.get(generator.target.id)
        for item in items[:200]:
            self.local[generator.target.id] = item
            made.append(self.of(node.elt, depth)[0])
        if before is None:
            self.local.pop(generator.target.id, None)
        else:
            self.local[generator.target.id] = before
        return [("list", made)]

    _of_generatorexp = _of_listcomp

    def _of_ifexp(self, node: "Node", depth: int) -> list[Value]:
        return [*self.of(node.body, depth), *self.of(node.orelse, depth)]

    def _of_boolop(self, node: "Node", depth: int) -> list[Value]:
        return [value for one in node.values for value in self.of(one, depth)]

    def _of_unaryop(self, node: "Node", depth: int) -> list[Value]:
        value = self.of(node.operand, depth)[0]
        is_minus = type(node.op).__name__ == "USub" and isinstance(value[1], int)
        return [("number", -value[1])] if is_minus and isinstance(value[1], int) else [UNKNOWN]

    def _of_await(self, node: "Node", depth: int) -> list[Value]:
        return self.of(node.value, depth)

    _of_starred = _of_await
    _of_formattedvalue = _of_await
    _of_namedexpr = _of_await

    def _of_call(self, node: "Node", depth: int) -> list[Value]:
        arguments = [self.of(one, depth) for one in node.args[:8]]
        found: list[Value] = []
        if type(node.func).__name__ == "Attribute":
            for base in self.of(node.func.value, depth):
                if base[0] in ("text", "list", "number"):
                    found.append(method(base, node.func.attr, arguments))
        for function in self.of(node.func, depth):
            if function[0] == "ref":
                found.append(called(str(function[1]), arguments))
            elif function[0] in KEPT:
                found.append(function)
        return found or [UNKNOWN]


def _nothing(node: "Node") -> None:
    return None
