"""Version control: git runs commands from its settings, its aliases and some of its verbs."""

from dogwatch.guard.bash.call import Call
from dogwatch.guard.bash.holes import TAME, known
from dogwatch.guard.bash.redirects import content_of
from dogwatch.guard.bash.state import NOTHING, UNKNOWN, Texts
from dogwatch.guard.rules.options import options
from dogwatch.guard.rules.paths import copies
from dogwatch.guard.rules.scripts import edited, run_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dogwatch.guard.bash.call import Rule

_COMMAND_SETTINGS = (
    "core.pager", "core.editor", "core.sshcommand", "core.fsmonitor", "core.askpass", "core.gitproxy", "diff.external",
    "sequence.editor", "gpg.program", "interactive.difffilter", "credential.helper", "web.browser", "man.viewer",
)  # fmt: skip
_COMMAND_ENDINGS = (".cmd", ".command", ".textconv", ".driver", ".clean", ".smudge", ".process", ".helper", ".path")
_TAME_VERBS = frozenset(
    "rev-parse describe symbolic-ref merge-base rev-list branch remote config hash-object write-tree stash worktree tag"
    " show-ref ls-remote name-rev count-objects version".split()
)

_HOOKS = (
    "pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-checkout", "post-merge", "pre-push",
    "pre-rebase", "post-rewrite", "pre-merge-commit", "post-applypatch",
)  # fmt: skip
_HOOKED = frozenset("commit checkout switch merge pull push rebase am cherry-pick revert clone worktree hook".split())


def git(call: Call) -> Texts:
    found = options(call.args, "cC", ("git-dir", "work-tree", "namespace", "exec-path", "config-env"))
    for setting in found.values.get("c", []):
        name, _, value = setting.partition("=")
        _setting(call, name, value)
    words = found.rest
    if not words:
        return UNKNOWN
    verb, rest = words[0], words[1:]
    if verb in _HOOKED:
        for folder in (".git/hooks", ".husky", ".githooks"):
            _hooks(call, f"{found.value('C')}/{folder}" if found.has("C") else folder)
    judge = _VERBS.get(verb)
    if judge is not None:
        judge(call, rest)
    for word in rest:
        if word.startswith(("--upload-pack=", "--receive-pack=", "--exec=")):
            call.world.leniently(call.code, word.partition("=")[2])
        elif word.startswith("ext::"):
            call.code(word[5:])
    return (TAME,) if verb in _TAME_VERBS else UNKNOWN


def _setting(call: Call, name: str, value: str) -> None:
    """A setting whose value git runs."""
    name = name.lower()
    if name.startswith("alias."):
        if value.startswith("!"):
            call.code(value[1:])
        elif known(value):
            call.world.leniently(lambda: call.run(["git", *value.split()], call.shell.copy()))
    elif name == "core.hookspath":
        _hooks(call, value)
    elif name in _COMMAND_SETTINGS or name.endswith(_COMMAND_ENDINGS) or name.startswith("pager."):
        code = value.removeprefix("!")
        call.world.leniently(lambda: call.code(code))


def _hooks(call: Call, folder: str) -> None:
    """The hooks in a folder, where they were changed."""
    for name in _HOOKS:
        contents = call.world.files.read(call.path(f"{folder}/{name}"))
        call.world.leniently(run_files, call, contents, "", [])


def _config(call: Call, rest: list[str]) -> None:
    found = options(rest, "f", ("file", "blob", "type", "default"), permute=True)
    words = [word for word in found.rest if word not in ("set", "add", "get", "list")]
    if len(words) > 1:
        _setting(call, words[0], words[1])


def _bisect(call: Call, rest: list[str]) -> None:
    if rest[:1] == ["run"] and len(rest) > 1:
        call.run(rest[1:], call.shell.copy())


def _rebase(call: Call, rest: list[str]) -> None:
    found = options(rest, "xsX", ("exec", "strategy", "onto", "strategy-option"), permute=True)
    for text in found.values.get("x", []) + found.values.get("exec", []):
        call.code(text)


def _submodule(call: Call, rest: list[str]) -> None:
    words = [word for word in rest if word not in ("--recursive", "--quiet", "-q")]
    if words[:1] == ["foreach"] and len(words) > 1:
        call.code(" ".join(words[1:]))


def _filter_branch(call: Call, rest: list[str]) -> None:
    for at, word in enumerate(rest[:-1]):
        if word.startswith("--") and word.endswith("-filter"):
            call.code(rest[at + 1])


def _tool(call: Call, rest: list[str]) -> None:
    found = options(rest, "xt", ("extcmd", "tool"), permute=True)
    for text in found.values.get("x", []) + found.values.get("extcmd", []):
        call.world.leniently(call.code, text)


def _grep(call: Call, rest: list[str]) -> None:
    for word in rest:
        if word.startswith(("-O", "--open-files-in-pager=")):
            text = word[2:] if word.startswith("-O") else word.partition("=")[2]
            call.world.leniently(call.code, text)


def _clone(call: Call, rest: list[str]) -> None:
    found = options(rest, "cobujl", ("config", "upload-pack", "branch", "origin", "depth"), permute=True)
    for setting in found.values.get("c", []) + found.values.get("config", []):
        name, _, value = setting.partition("=")
        _setting(call, name, value)
    for text in found.values.get("u", []) + found.values.get("upload-pack", []):
        call.world.leniently(call.code, text)


def patch(call: Call, rest: "list[str] | None" = None) -> Texts:
    """What a patch adds to a file may be run."""
    words = [word for word in (call.args if rest is None else rest) if not word.startswith("-")]
    texts = [text for word in words for text in content_of(call.walker, word, call.shell, call.io)]
    file = words[0] if words else ""
    for text in (*texts, *(call.stdin() or ())):
        added: dict[str, list[str]] = {}
        for line in text.splitlines():
            if line.startswith("+++ "):
                file = line[4:].partition("\t")[0].removeprefix("b/")
            elif line.startswith("+"):
                added.setdefault(file, []).append(line[1:])
        for path, lines in added.items():
            edited(call, path, "\n".join(lines))
    return UNKNOWN


def _apply(call: Call, rest: list[str]) -> None:
    patch(call, rest)


_VERBS = {
    "config": _config,
    "bisect": _bisect,
    "rebase": _rebase,
    "submodule": _submodule,
    "filter-branch": _filter_branch,
    "difftool": _tool,
    "grep": _grep,
    "clone": _clone,
    "apply": _apply,
    "am": _apply,
}


def mercurial(call: Call) -> Texts:
    for at, word in enumerate(call.args[:-1]):
        if word == "--config":
            _, _, value = call.args[at + 1].partition("=")
            if value.startswith("!"):
                call.code(value[1:])
    return UNKNOWN


_RUNS = frozenset(
    "--to-command --use-compress-program -I --rsh --rmt-command -TT --unzip-command --info-script --new-volume-script"
    " -F".split()
)


def archive(call: Call) -> Texts:
    """`tar`, `zip` and `rsync` run commands on request."""
    for at, word in enumerate(call.args):
        following = call.args[at + 1] if at + 1 < len(call.args) else ""
        option, equals, value = word.partition("=")
        text = value if equals else following
        if option == "--checkpoint-action":
            kind, _, code = text.partition("=")
            if kind == "exec":
                call.code(code)
        elif option in _RUNS:
            call.world.leniently(call.code, text)
    return NOTHING if call.name == "zip" else UNKNOWN


def rsync(call: Call) -> Texts:
    """It runs a command of one's own to reach the other side, and copies."""
    found = options(call.args, "ef", ("rsh", "rsync-path"), permute=True)
    for text in [text for name in ("e", "rsh", "rsync-path") for text in found.values.get(name, [])]:
        call.world.leniently(call.code, text)
    return copies(call)


def helper(call: Call) -> Texts:
    """`sort --compress-program`, `split --filter`, `man -P`: a single option runs a command."""
    for at, word in enumerate(call.args):
        following = call.args[at + 1] if at + 1 < len(call.args) else ""
        option, equals, value = word.partition("=")
        if call.name in ("less", "more") and word.startswith("+!"):
            call.code(word[2:])
        if option in ("--filter", "--compress-program", "--pager", "-P", "--html"):
            text = value if equals else following
            call.world.leniently(call.code, text)
    return UNKNOWN


RULES: "dict[str, Rule]" = {
    "git": git,
    "hg": mercurial,
    "patch": patch,
    **dict.fromkeys(("tar", "bsdtar", "gtar", "zip"), archive),
    "rsync": rsync,
    **dict.fromkeys(("split", "man", "less", "more"), helper),
}
