"""What an agent gets of the environment that the crew was started in: what is harmless, what its client needs, and what
its role asks for. Everything else, such as the keys of another client or of a cloud, stays with the operator.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import replace

from dogwatch.harness.api import Harness
from dogwatch.model.plan import Role
from dogwatch.model.redact import is_secret, redact

_PERSON = "HOME USER LOGNAME SHELL LANG LANGUAGE LC_* TZ COLORTERM NO_COLOR EDITOR VISUAL PAGER TMPDIR XDG_*"
# SSH_AUTH_SOCK is not among them: whoever has it can use all keys of the person, on all machines.
_NETWORK = (
    "http_proxy https_proxy ftp_proxy all_proxy no_proxy HTTP_PROXY HTTPS_PROXY FTP_PROXY ALL_PROXY NO_PROXY"
    " SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS GIT_SSL_CAINFO PIP_CERT"
)
_TOOLS = (
    "PATH MANPATH LD_LIBRARY_PATH LIBRARY_PATH PKG_CONFIG_PATH CPATH CC CXX"
    " NVM_DIR NVM_BIN NODE_PATH NODE_OPTIONS VOLTA_HOME FNM_DIR PNPM_HOME BUN_INSTALL DENO_DIR COREPACK_HOME"
    " PYTHONPATH PYTHONHOME PYTHONUTF8 PYTHONIOENCODING PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE VIRTUAL_ENV PYENV_ROOT"
    " PYENV_VERSION CONDA_PREFIX CONDA_DEFAULT_ENV POETRY_HOME PIPX_HOME UV_CACHE_DIR"
    " CARGO_HOME RUSTUP_HOME RUSTUP_TOOLCHAIN GOPATH GOROOT GOBIN GOCACHE GOMODCACHE GOTOOLCHAIN"
    " JAVA_HOME MAVEN_HOME GRADLE_HOME GRADLE_USER_HOME SDKMAN_DIR RBENV_ROOT GEM_HOME GEM_PATH BUNDLE_PATH"
    " ASDF_DIR ASDF_DATA_DIR MISE_DATA_DIR NIX_PATH NIX_PROFILES NIX_SSL_CERT_FILE"
)
_OWN = ("HOME", "XDG_*")
"""Where a person keeps what is theirs."""
BASE = (*_PERSON.split(), *_NETWORK.split(), *_TOOLS.split())
"""What every agent gets; `*` at the end stands for anything."""
TERMINAL = {"TERM": "tmux-256color", "TERM_PROGRAM": "tmux"}
"""The agent's terminal is tmux, whatever the operator's is."""
RESERVED = "DOGWATCH_"
_IF = " if "
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def agent_variables(base: Mapping[str, str], client: Harness, role: Role, *, rehearsal: bool = False) -> dict[str, str]:
    """The variables of an agent of this role, but for those that tell it who it is; `base` is the crew's own. In a
    rehearsal a client gets nothing that could lead it to its real model, or to the user's own folders."""
    given = {**base, **role.environment}
    wanted = [*BASE, *_that_apply(client.variables, given), *role.inherit]
    kept = {name: value for name, value in base.items() if _matches(name, wanted) and not name.startswith(RESERVED)}
    if rehearsal and client.package:
        kept = {name: value for name, value in kept.items() if not (_leads_out(name, client) or _matches(name, _OWN))}
        # A proxy would be asked for the scripted model on this machine.
        for name in ("no_proxy", "NO_PROXY"):
            kept[name] = ",".join(filter(None, (kept.get(name, ""), "127.0.0.1,localhost")))
    return {**kept, **TERMINAL, **role.environment}


def differing(mine: Mapping[str, str], theirs: Mapping[str, str], client: Harness, role: Role) -> list[str]:
    """The names of what an agent of this role would need of my environment and gets of theirs, where that is another:
    its PATH, and what leads to its model."""
    wanted = ["PATH", *_that_apply(client.variables, {**mine, **role.environment}), *role.inherit]
    names = {name for name in (*mine, *theirs) if _matches(name, wanted) and not name.startswith(RESERVED)}
    return sorted(name for name in names - role.environment.keys() if mine.get(name) != theirs.get(name))


def rehearsed(role: Role, client: Harness, variables: Mapping[str, str]) -> Role:
    """The role as it plays in a rehearsal, with the variables of that: without its own that lead to a real model."""
    own = {name: value for name, value in role.environment.items() if not _leads_out(name, client)}
    return replace(role, environment={**own, **variables})


def _leads_out(name: str, client: Harness) -> bool:
    """Whether a variable may hold a key, choose a provider or name the client's own folders: all that the client is
    known to read, but for plain settings that are named in full."""
    if is_secret(name):
        return True
    if not _matches(name, (pattern.partition(_IF)[0] for pattern in client.variables)):
        return False
    return name not in client.variables or name.rpartition("_")[2] in ("URL", "HOME", "DIR", "HOST", "ENDPOINT")


def starting(variables: Mapping[str, str], file: str) -> tuple[list[str], str]:
    """The words in front of a command that start it with exactly these variables, and the text that `file` must have
    before, readable for its owner only. What is secret stands in no list of processes and in no record of tmux's: a
    shell reads it from the file, removes the file and becomes the command."""
    hidden = {name: value for name, value in variables.items() if _PLAIN_NAME.fullmatch(name) and _hides(name, value)}
    words = ["env", "-i", *(f"{name}={value}" for name, value in variables.items() if name not in hidden)]
    if not hidden:
        return words, ""
    words += ["sh", "-c", 'set -a; . "$0"; set +a; rm -f "$0"; exec "$@"', file]
    return words, "".join(f"{name}={shlex.quote(value)}\n" for name, value in hidden.items())


def _hides(name: str, value: str) -> bool:
    return is_secret(name) or redact(value) != value


def _that_apply(patterns: Iterable[str], given: Mapping[str, str]) -> list[str]:
    """Without conditions that do not hold: `AWS_* if CLAUDE_CODE_USE_BEDROCK`."""
    parts = (pattern.partition(_IF) for pattern in patterns)
    return [name for name, _, condition in parts if not condition or given.get(condition, "") not in ("", "0", "false")]


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(name.startswith(one[:-1]) if one.endswith("*") else name == one for one in patterns)
