"""Programs that no rule knows: their arguments may still name a command."""

from dogwatch.guard.bash.call import Call
from dogwatch.guard.bash.state import UNKNOWN, Texts

_SPECIFIC = ("tmux", "pkill", "killall", "kill")
_CODE_OPTIONS = ("-c", "-e", "-x", "--exec", "--command", "--cmd", "--run", "--shell", "--eval", "--execute")
_DATA = frozenset(
    (
        "ack ag apk apropos apt apt-get aptitude aws az basename bat brew cal cargo cat cmp code column comm curl cut "
        "date df diff dirname dnf dpkg du egrep emacs fd fgrep file free gcloud gem gh glab go grep head http hub "
        "info jira jq less linear ls man micro mkdir more nano netstat nl npm nvim open pacman paste pgrep pidof pip "
        "pip3 pipx pnpm port printenv ps readlink realpath rg slack snap sort ss stat tail tldr touch tree uniq "
        "uptime vi vim wc wget whatis whereis which xdg-open yarn yq yum"
    ).split()
)
"""Programs whose arguments are never commands, whatever they look like."""


def unknown_program(call: Call) -> Texts:
    """A program that no rule knows may still run another one that its arguments name."""
    if call.name in _DATA:
        return UNKNOWN
    for at, word in enumerate(call.args):
        base = word.rpartition("/")[2]
        following = call.args[at + 1] if at + 1 < len(call.args) else ""
        if base in _SPECIFIC and (base != "kill" or word != base or following[:1] == "-" != following[1:2]):
            call.world.leniently(call.walker.run, call.args[at:], call.shell.copy(), call.io)
        elif word in _CODE_OPTIONS and " " in following:
            call.world.leniently(call.code, following)
        elif word.startswith("--") and "=" in word:
            option, _, text = word.partition("=")
            if option in _CODE_OPTIONS and " " in text:
                call.world.leniently(call.code, text)
    return UNKNOWN
