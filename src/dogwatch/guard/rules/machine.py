"""The machine as a whole: services, logins, power, schedules; and dogwatch's own commands for operators."""

from dogwatch.guard.bash.call import Call
from dogwatch.guard.bash.files import normal
from dogwatch.guard.bash.holes import DISK, TAME, known
from dogwatch.guard.bash.state import NOTHING, UNKNOWN, Texts, plain, text_of
from dogwatch.guard.rules.options import options
from dogwatch.guard.rules.paths import roots
from dogwatch.guard.rules.runners import runner
from dogwatch.guard.verdict import deny

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dogwatch.guard.bash.call import Rule

ASK = "ask the operator to do it"
_ENDING_VERBS = frozenset(
    "stop restart try-restart reload-or-restart try-reload-or-restart condrestart force-reload kill isolate poweroff"
    " reboot halt kexec suspend hibernate hybrid-sleep suspend-then-hibernate rescue emergency exit default switch-root"
    " soft-reboot freeze clean set-property".split()
)
_TARGETS = ("poweroff", "reboot", "halt", "rescue", "emergency", "kexec", "suspend", "hibernate", "exit", "shutdown")
_SYSTEMCTL_VALUES = ("type", "state", "property", "signal", "kill-whom", "host", "machine", "root", "output", "lines")
_MANAGED = ("stop", "delete", "del", "restart", "reload")
_OPERATOR_COMMANDS = ("up", "down", "kill", "crew", "trust", "hooks", "check-in")


def systemctl(call: Call) -> Texts:
    found = options(call.args, "tpsHMnoPK", _SYSTEMCTL_VALUES, permute=True)
    verb = found.rest[0] if found.rest else ""
    unit = found.rest[1:]
    ends = verb in _ENDING_VERBS or (verb in ("disable", "mask") and "now" in found.flags)
    if ends or (verb == "start" and any(name.startswith(_TARGETS) for name in unit)):
        deny("machine.service", f"`{call.shown}` ends or restarts a service that is not yours", ASK)
    if verb and not known(verb):
        call.world.unresolved(f"what `{call.shown}` does cannot be known from the command", "write the verb out")
    return UNKNOWN


def service(call: Call) -> Texts:
    """`service NAME VERB`, `rc-service`, `sv VERB NAME`, `initctl`, `supervisorctl`, `launchctl`."""
    if any(word in _ENDING_VERBS or word in ("bootout", "unload", "remove", "down", "shutdown") for word in call.args):
        deny("machine.service", f"`{call.shown}` ends or restarts a service that is not yours", ASK)
    return UNKNOWN


def manager(call: Call) -> Texts:
    """`pm2`, `forever`: one daemon keeps the processes of everybody."""
    words = [word for word in call.args if not word.startswith("-")]
    if words[:1] in (["kill"], ["stopall"], ["restartall"]) or (words[:1] and words[0] in _MANAGED and "all" in words):
        deny("machine.service", f"`{call.shown}` ends or restarts processes that are not yours", ASK)
    return UNKNOWN


def overmind(call: Call) -> Texts:
    """Whoever has started what is in the folder's Procfile: `kill` and `quit` end it."""
    if call.args[:1] in (["kill"], ["quit"]):
        deny("machine.service", f"`{call.shown}` ends processes that are not yours", ASK)
    return runner(call)


def loginctl(call: Call) -> Texts:
    verb = next((word for word in call.args if not word.startswith("-")), "")
    if verb.startswith(("terminate-", "kill-")) or verb in ("poweroff", "reboot", "halt", "suspend", "hibernate"):
        deny("machine.login", f"`{call.shown}` ends sessions or processes of users", ASK)
    return UNKNOWN


def power(call: Call) -> Texts:
    """`shutdown`, `reboot`, `halt`, `poweroff`, `init 0`, `telinit`."""
    if any(word in ("--help", "--version", "-c", "--show") for word in call.args):
        return UNKNOWN
    if call.name in ("init", "telinit") and not any(word in ("0", "1", "6", "s", "S", "q") for word in call.args):
        return UNKNOWN
    return deny("machine.power", f"`{call.shown}` ends everything on this machine", ASK)


def bus(call: Call) -> Texts:
    """Calls to systemd and logind over D-Bus."""
    words = " ".join(call.args)
    ends = ("StopUnit", "KillUnit", "RestartUnit", "PowerOff", "Reboot", "Halt", "Terminate", "KillSession", "KillUser")
    if any(name in words for name in ends):
        deny("machine.service", f"`{call.shown}` ends services, sessions or the machine", ASK)
    return UNKNOWN


def dogwatch(call: Call) -> Texts:
    """Agents report, read mail and look; ending is for operators. A home of one's own is one's own business."""
    verb = next((word for word in call.args if not word.startswith("-")), "")
    if verb in _OPERATOR_COMMANDS and not _own_home(call) and not {"--help", "-h"} & set(call.args):
        deny("dogwatch.operator", f"`dogwatch {verb}` is for operators", "report what is wrong: dogwatch report failed")
    return UNKNOWN


def packages(call: Call) -> Texts:
    """The guard is not to be uninstalled by those whom it guards."""
    if "uninstall" in call.args and any(word.lower() == "dogwatch" for word in call.args):
        deny("dogwatch.operator", f"`{call.shown}` takes the guard away", ASK)
    return UNKNOWN


def _own_home(call: Call) -> bool:
    value = call.shell.variables.get("DOGWATCH_HOME")
    home = plain(text_of(value)) if value else None
    return bool(home) and normal(home or "") not in [path for _, path in roots(call.world)]


def cgroups(call: Call) -> Texts:
    """`cgdelete`, `cgset`, `cgclassify`, and `cgexec`, which leaves the agent's own limit."""
    return deny("process.cgroup", f"`{call.shown}` acts on all processes of a group", ASK)


def loads_tasks(call: Call) -> Texts:
    """`crontab` and `at`: what is scheduled is judged as it will be run."""
    found = options(call.args, "ufqtU", permute=False)
    if call.name == "crontab":
        if found.flags & {"l", "e"}:
            return (TAME,)
        if found.has("r"):
            deny("machine.schedule", "`crontab -r` removes the user's schedule", ASK)
    texts = call.stdin() or NOTHING
    file = (
        found.value("f") if call.name != "crontab" else found.rest[0] if found.rest and found.rest[0] != "-" else None
    )
    if file is not None:
        texts = call.world.files.read(call.path(file)) or (DISK,)
    if found.flags & {"l", "c", "d", "r"}:
        return UNKNOWN
    for text in texts:
        if call.name != "crontab":
            call.code(text)
            continue
        for line in text.splitlines():
            fields = line.split(None, 5)
            if line.startswith("@"):
                fields = line.split(None, 1)
            if fields and line.strip() != TAME and not line.lstrip().startswith("#") and "=" not in fields[0]:
                call.code(fields[-1])
    return UNKNOWN


RULES: "dict[str, Rule]" = {
    "systemctl": systemctl,
    **dict.fromkeys(
        ("service", "rc-service", "sv", "initctl", "supervisorctl", "launchctl", "s6-svc", "monit"), service
    ),
    "loginctl": loginctl,
    **dict.fromkeys(("pm2", "forever"), manager),
    "overmind": overmind,
    **dict.fromkeys(("shutdown", "reboot", "halt", "poweroff", "init", "telinit", "kexec"), power),
    **dict.fromkeys(("dbus-send", "busctl", "gdbus", "qdbus"), bus),
    **dict.fromkeys(("cgdelete", "cgset", "cgclassify", "cgexec"), cgroups),
    **dict.fromkeys(("crontab", "at", "batch"), loads_tasks),
    "dogwatch": dogwatch,
    **dict.fromkeys(("pip", "pipx"), packages),
}
