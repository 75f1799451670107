"""The command language of tmux: its table of commands, prefixes, chains and quoting (as of tmux 3.5)."""

from dogwatch.guard.bash.holes import TAME, WILD, could_be, known
from dogwatch.guard.verdict import ParseError

_COMMANDS = (
    "attach-session:attach bind-key:bind break-pane:breakp capture-pane:capturep choose-buffer choose-client "
    "choose-tree clear-history:clearhist clear-prompt-history:clearphist clock-mode command-prompt "
    "confirm-before:confirm copy-mode customize-mode delete-buffer:deleteb detach-client:detach display-menu:menu "
    "display-message:display display-panes:displayp display-popup:popup find-window:findw has-session:has if-shell:if "
    "join-pane:joinp kill-pane:killp kill-server kill-session kill-window:killw last-pane:lastp last-window:last "
    "link-window:linkw list-buffers:lsb list-clients:lsc list-commands:lscm list-keys:lsk list-panes:lsp "
    "list-sessions:ls list-windows:lsw load-buffer:loadb lock-client:lockc lock-server:lock lock-session:locks "
    "move-pane:movep move-window:movew new-session:new new-window:neww next-layout:nextl next-window:next "
    "paste-buffer:pasteb pipe-pane:pipep previous-layout:prevl previous-window:prev refresh-client:refresh "
    "rename-session:rename rename-window:renamew resize-pane:resizep resize-window:resizew respawn-pane:respawnp "
    "respawn-window:respawnw rotate-window:rotatew run-shell:run save-buffer:saveb select-layout:selectl "
    "select-pane:selectp select-window:selectw send-keys:send send-prefix server-access set-buffer:setb "
    "set-environment:setenv set-hook set-option:set set-window-option:setw show-buffer:showb show-environment:showenv "
    "show-hooks show-messages:showmsgs show-options:show show-prompt-history:showphist show-window-options:showw "
    "source-file:source split-window:splitw start-server:start suspend-client:suspendc swap-pane:swapp "
    "swap-window:swapw switch-client:switchc unbind-key:unbind unlink-window:unlinkw wait-for:wait"
)
ALIASES = {entry.partition(":")[2]: entry.partition(":")[0] for entry in _COMMANDS.split() if ":" in entry} | {
    "split-pane": "split-window",
    "splitp": "split-window",
    "server-info": "show-messages",
    "info": "show-messages",
    "choose-window": "choose-tree",
    "choose-session": "choose-tree",
}
NAMES = tuple(entry.partition(":")[0] for entry in _COMMANDS.split())

VALUED = {
    "attach-session": "cft",
    "bind-key": "TN",
    "break-pane": "Fnst",
    "capture-pane": "bESt",
    "choose-buffer": "FfKOt",
    "choose-client": "FfKOt",
    "choose-tree": "FfKOt",
    "command-prompt": "IptT",
    "confirm-before": "cpt",
    "detach-client": "Est",
    "display-menu": "bcCHsStTxy",
    "display-message": "cdFt",
    "display-panes": "dt",
    "display-popup": "bcdehsStTwxy",
    "if-shell": "t",
    "join-pane": "lst",
    "link-window": "st",
    "list-buffers": "Ff",
    "load-buffer": "bt",
    "move-pane": "lst",
    "move-window": "st",
    "new-session": "ceFfnstxy",
    "new-window": "ceFnt",
    "paste-buffer": "sbt",
    "refresh-client": "ABCfrt",
    "resize-pane": "xyt",
    "resize-window": "xyt",
    "respawn-pane": "cet",
    "respawn-window": "cet",
    "run-shell": "dct",
    "save-buffer": "b",
    "send-keys": "cNt",
    "set-buffer": "bnt",
    "set-hook": "t",
    "split-window": "ceFlpt",
    "swap-pane": "st",
    "swap-window": "st",
    "switch-client": "cOtT",
    "unbind-key": "T",
    "list-sessions": "FfO",
    "list-panes": "FfOt",
    "list-windows": "FfOt",
    "list-clients": "FfOt",
    "list-keys": "PTFO",
    "show-prompt-history": "T",
    "source-file": "t",
}
"""The flags with a value of those commands that have others than `-t`."""


def commands_named(word: str) -> list[str]:
    """The commands that tmux may take the word for: an alias, a name, or the beginning of one."""
    if not known(word):
        return [ALIASES.get(name, name) for name in (*NAMES, *ALIASES) if could_be(word + WILD, name)]
    if word in ALIASES:
        return [ALIASES[word]]
    return [word] if word in NAMES else [name for name in NAMES if name.startswith(word)]


def chained(words: list[str]) -> list[list[str]]:
    """The commands of a call with `;` between them, as tmux divides its arguments."""
    found: list[list[str]] = [[]]
    for word in words:
        if word.endswith("\\;"):
            found[-1].append(word[:-2] + ";")
        elif word.endswith(";"):
            if word != ";":
                found[-1].append(word[:-1])
            found.append([])
        else:
            found[-1].append(word)
    return [command for command in found if command]


def parsed(text: str) -> list[list[str]]:
    """The commands of a text: a configuration, a hook, what `if-shell` runs."""
    found: list[list[str]] = [[]]
    at = 0
    while at < len(text):
        char = text[at]
        if char in " \t":
            at += 1
        elif char in "\n;":
            found.append([])
            at += 1
        elif char == "#" and text[at + 1 : at + 2] not in ("{", "("):
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
        elif char == "{":
            end = _block_end(text, at)
            found[-1].append(text[at + 1 : end])
            at = end + 1
        elif char == "}":
            at += 1
        else:
            word, at = _word(text, at)
            found[-1].append(word)
    return [command for command in found if command and not command[0].startswith("%")]


def _block_end(text: str, at: int) -> int:
    level = 0
    while at < len(text):
        char = text[at]
        if char in "'\"":
            at = text.find(char, at + 1)
            if at < 0:
                break
        elif char == "{":
            level += 1
        elif char == "}":
            level -= 1
            if level == 0:
                return at
        at += 1
    raise ParseError("a `{` of a tmux command is never closed")


def _word(text: str, at: int) -> tuple[str, int]:
    kept: list[str] = []
    quote = ""
    while at < len(text):
        char = text[at]
        if quote:
            if char == quote:
                quote = ""
                at += 1
                continue
        elif char in " \t\n;":
            break
        elif char in "'\"":
            quote = char
            at += 1
            continue
        if char == "\\" and quote != "'":
            following = text[at + 1 : at + 2]
            at += 2
            kept.append("" if following == "\n" else following)
        elif char == "$" and quote != "'":
            at = _variable_end(text, at)
            kept.append(TAME)
        else:
            kept.append(char)
            at += 1
    if quote:
        raise ParseError("a quote of a tmux command is never closed")
    return "".join(kept), at


def _variable_end(text: str, at: int) -> int:
    if text[at + 1 : at + 2] == "{":
        end = text.find("}", at)
        return len(text) if end < 0 else end + 1
    at += 1
    while at < len(text) and (text[at].isalnum() or text[at] == "_"):
        at += 1
    return at


def shell_formats(text: str) -> list[str]:
    """The shell commands in `#(…)`, which tmux runs wherever it shows a format."""
    found: list[str] = []
    start = text.find("#(")
    while start >= 0:
        level, at = 1, start + 2
        while at < len(text) and level:
            level += (text[at] == "(") - (text[at] == ")")
            at += 1
        found.append(text[start + 2 : at - 1] if not level else text[start + 2 :])
        start = text.find("#(", at)
    return found
