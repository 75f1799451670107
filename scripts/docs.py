"""Writes the generated pages of docs/reference/ and the generated parts of others: python scripts/docs.py [--check]

Everything comes from the code itself. What the code does not say in words stands in the tables below, and a name
that is missing there stops the script. With --check nothing is written; exit code 1 where a page is not current.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import get_args, get_type_hints

import dogwatch
from dogwatch import errors
from dogwatch.actions.spawn import agent_environment
from dogwatch.cli.commands import all_commands
from dogwatch.cli.framework import command_parser
from dogwatch.door.registry import VERBS, place
from dogwatch.door.verb import Argument, wire_name
from dogwatch.model.events import KINDS, event_class
from dogwatch.model.events.base import Event
from dogwatch.model.events.schema import meaning, schema, type_words
from dogwatch.model.folders import folder_at
from dogwatch.model.life import NotStarted
from dogwatch.model.lifecycle import LIFECYCLES, Lifecycle
from dogwatch.model.moment import Moment
from dogwatch.model.records import AgentRecord, RunRecord
from dogwatch.policy.diagnoses import DIAGNOSES
from dogwatch.spec import reference
from dogwatch.world.home import Home

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from bench import measured
from scripts import architecture

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "reference"
SOURCE = Path(dogwatch.__path__[0])
# So wide that argparse never breaks a usage line: where it would break one depends on the terminal and on Python.
WIDTH = "2000"

AGENTS = ", ".join(name for name, (group, _) in all_commands().items() if group == "For agents")

COMMAND_CODES: dict[str, dict[int, str]] = {
    "run": {
        0: "every run was delivered: COMPLETED, or PARTIAL where the pipeline allows it",
        1: "a run ended as FAILED",
        2: "a run ended as NO_CONSENSUS (kept for a later version: no run ends so today)",
        65: "the pipeline file has errors",
        75: "`dogwatch down` was called meanwhile; the runs keep their place",
        77: "`--prefix` belongs to runs of other files or settings; nothing was made",
        130: "interrupted with Ctrl-C; the runs were ended",
    },
    "demo": {
        0: "both runs were delivered and every fault was noticed and mended",
        1: "a run failed, or a fault was not injected, noticed or mended",
        130: "interrupted; everything was cleaned up",
    },
    "record": {
        0: "the scenario is written; what is not in it was said",
        1: "nothing could be recorded",
        64: "the file is there already, or cannot be written",
        66: "there is no such run",
    },
    "backtest": {
        0: "replayed, whatever would have been different",
        64: "there is no such limit, or it cannot have that value or be replayed",
        66: "there is no such run",
        77: "a run still goes on",
    },
    "harness check": {
        0: "everything holds",
        1: "something does not hold, or could not be tried",
        66: "the client is not installed",
        69: "tmux is missing",
        130: "interrupted; everything was cleaned up",
    },
    "model": {0: "ended by Ctrl-C or a signal", 64: "a wrong scenario, a port in use, a log that cannot be written"},
    "up": {0: "the dispatcher is alive", 1: "it did not start within 30 s; the message names its log"},
    "check-in": {
        0: "answered",
        1: "it ended without an answer; the message says why",
        66: "there is no such run or agent",
        75: "not answered within `--wait`; the question stands",
        77: "the run is over, or the agent has no conversation that could be asked",
    },
    "kill": {
        0: "it has ended",
        66: "there is no such run or agent",
        75: "not ended within `--wait`; the order stands",
        77: "the run is over already",
    },
    "attach": {64: "there is no terminal, or the target names no agent", 66: "there is no such run, agent or session"},
    "status --checks": {0: "no check has failed", 1: "at least one check has failed"},
    "explain, waits": {66: "there is no such run, agent or alert"},
    "watch": {0: "left with Ctrl-C, or one table was printed", 69: "tmux is missing", 75: "its server does not answer"},
    "status, events, logs": {66: "there is no such run, or nothing was ever recorded in this home"},
    "trust": {
        0: "it is trusted, or taken back with `--undo`",
        1: "you did not agree; nothing was changed",
        66: "there is no such folder",
        75: "the client's file is locked or changes all the time; nothing was changed",
        77: "refused, the message says why; nothing was changed",
    },
    "hooks install, uninstall": {
        0: "it is so",
        1: "the guard does not work here; nothing was changed",
        66: "there is no such folder",
        77: "the settings cannot be understood or written; nothing was changed",
    },
    "hooks status": {0: "the guard holds in at least one place", 1: "it does not"},
    "spec check": {0: "all files can be used", 65: "at least one has problems"},
    "spec explain": {65: "the file has problems"},
    "notify": {0: "every way took it", 1: "at least one did not, or none is configured"},
    "doctor": {0: "no problem was found; warnings are none", 1: "at least one problem"},
    AGENTS: {
        0: "the captain has recorded it",
        64: "it was not called inside an agent, or an argument is wrong",
        75: "the captain did not answer in time; call again, nothing was lost",
        77: "refused: against the rules, or from an incarnation that is gone; nothing was changed",
    },
}

LIFECYCLE_WORDS = {
    "run": "One execution of a pipeline. ORCHESTRATING and NO_CONSENSUS are kept for a consensus phase, which this"
    " version does not have.",
    "agent": "A holder of a role. A new incarnation takes the agent back to CREATED. ERROR means that it is not started"
    " again: it failed too often, or the run failed.",
    "health": "An axis of its own: an agent that gave no sign of life when it was asked is stalled, and after"
    " `unresponsive_s` unresponsive; one that stalls again is replaced.",
    "message": "From the captain or from another agent. It is delivered when the agent's client says so"
    " itself, through a hook; a plain command has none, and then it is delivered when it was typed.",
    "task": "The unit of work. The task of an agent that died or stalled is pending again, without an owner and without"
    " counting as an attempt; returned is work that was refused; accepted means that the outputs have changed since the"
    " dispatch and are large enough.",
    "checkpoint": "A review. Each round asks every reviewer; revised returns the author's task with the notes.",
}

OPERATOR_VARIABLES = {
    "DOGWATCH_HOME": "The folder for all state: ledger, sockets, spools, logs. Default: `$XDG_STATE_HOME/dogwatch`. At"
    " most 56 bytes long, because Unix sockets lie below it.",
    "DOGWATCH_LEDGER": "The ledger's database, as `postgresql://USER@HOST/DATABASE` ([ledger](../ledger.md)). Without"
    " it the ledger is a file in `DOGWATCH_HOME`. Agents and gates are never given it.",
    "DOGWATCH_NOTIFY": "A command line that tells a person what needs one, where the pipeline file names no way"
    " ([notifications](../notifications.md)). No shell is used. Agents and gates are never given it.",
    "DOGWATCH_NOTIFY_TARGETS": "Targets for the same, as URLs with blanks between them. Agents and gates are never"
    " given them.",
    "XDG_STATE_HOME": "Where the default home lies. Default, also where it is no absolute path: `~/.local/state`.",
    "NO_COLOR": "Set to anything, there are no colours.",
    "TERM": "With `dumb` there are no colours. Where standard output is no terminal, there are none either.",
    "PYTHON": "The interpreter that `make` builds `.venv` with, where `python3` is not the right one.",
}

AGENT_VARIABLES = {
    "DOGWATCH_HOME": "The home of the dogwatch that started it.",
    "DOGWATCH_RUN": "The run, such as `overnight-1`.",
    "DOGWATCH_ROLE": "The agent's name: the role's own, or numbered where the role has several holders.",
    "DOGWATCH_INCARNATION": "The number of its process, from 1. Calls with a number that is not current are refused.",
    "DOGWATCH_SLUG": "The incarnation's name for people, such as `quick-gull`.",
    "DOGWATCH_PROJECT": "The folder that it works in.",
    "DOGWATCH_OUTPUT": "The folder for the run's outputs; output paths of the pipeline file are relative to it.",
    "DOGWATCH_DOOR": "The Unix socket of the run's captain.",
    "DOGWATCH_SPOOL": "The file that its client's hooks append to ([spool](spool.md)).",
    "DOGWATCH_POST": "The folder where messages wait for its client's next hook.",
    "PATH": "The operator's, with a folder before it that holds this `dogwatch` and the guard's wrappers.",
}

OTHER_VARIABLES = {
    "DOGWATCH_DOOR_WAIT_S": "For agents: how many seconds a `dogwatch` call waits for a captain that is away, from 0 to"
    " 86400. Default: 60.",
    "DOGWATCH_NOTICE_KIND": "For a notification's command: `escalation`, `permission`, `quarantine`, `ended`, `held`"
    " or `test`.",
    "DOGWATCH_NOTICE_RUN": "For the same: the run it is about.",
    "DOGWATCH_NOTICE_AGENT": "For the same: the agent it is about; may be empty.",
    "DOGWATCH_NOTICE_TITLE": "For the same: one line.",
    "DOGWATCH_NOTICE_BODY": "For the same: the details, at most 4,000 characters.",
    "SCRIPTED_TRUTH": "For scripted agents: the file for the ground truth ([scenario](scenario.md)).",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 where a page is not current")
    check: bool = parser.parse_args().check
    os.environ["COLUMNS"] = WIDTH
    REFERENCE.mkdir(parents=True, exist_ok=True)
    pages = {REFERENCE / name: make() for name, make in PAGES.items()} | measured.pages(ROOT)
    pages |= {ROOT / name: with_parts(ROOT / name, parts) for name, parts in PARTS.items()}
    stale = [path for path, text in pages.items() if not is_current(path, text)]
    for path in stale:
        if check:
            print(f"error: {path.relative_to(ROOT)} is not current\nhint: make docs", file=sys.stderr)
        else:
            path.write_text(pages[path], encoding="utf-8")
            print(f"written: {path.relative_to(ROOT)}")
    return 1 if check and stale else 0


def is_current(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


def with_parts(path: Path, parts: dict[str, Callable[[], str]]) -> str:
    """The page as it is, with its generated parts made anew: each stands between two comments that name it."""
    text = path.read_text(encoding="utf-8")
    for name, make in parts.items():
        between = re.compile(rf"(<!-- Begin {name}: .*? -->\n).*?(<!-- End {name} -->\n)", re.DOTALL)
        pieces = between.split(text)
        if len(pieces) != 4:
            raise SystemExit(f"error: {path.relative_to(ROOT)} must have one place for {name}")
        before, begin, end, after = pieces
        text = f"{before}{begin}\n{make()}\n\n{end}{after}"
    return text


def page(source: str, *blocks: str) -> str:
    """A page with the note that it is generated, and one empty line between its blocks."""
    note = f"<!-- Generated by `make docs` from {source}. Do not edit. -->"
    return "\n\n".join([note, *(block.strip() for block in blocks if block.strip())]) + "\n"


def table(heading: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    lines = [heading, tuple("---" for _ in heading), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def cli() -> str:
    """Every command with its description, usage, options and example."""
    blocks = ["# The command line", "Errors are two lines on standard error, `error: …` and `hint: …`."]
    blocks[1] += " The exit codes stand in [exit-codes.md](exit-codes.md), the JSON in [json.md](json.md)."
    commands = all_commands()
    for heading in ("For operators", "For agents"):
        names = [name for name, (group, _) in commands.items() if group == heading]
        blocks += [f"## {heading}"]
        blocks += [table(("command", "what it does"), ((f"[`{n}`](#{n})", commands[n][1]) for n in names))]
        for name in names:
            blocks += command(name)
    return page("the parsers in `src/dogwatch/cli/` and the verbs in `src/dogwatch/door/verbs/`", *blocks)


def command(name: str) -> Iterator[str]:
    parser = command_parser(name)
    yield f"### {name}"
    yield from (paragraph(text) for text in (parser.description or "").strip().split("\n\n"))
    verbs = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    yield usage(parser, *(verb for action in verbs for verb in action.choices.values()))
    rows = [*arguments(parser, "")]
    for action in verbs:
        rows += [(f"`{choice.dest}`", choice.help or "") for choice in action._choices_actions]
        for verb, of_verb in action.choices.items():
            rows += arguments(of_verb, f"{verb} ")
    yield table(("argument", "meaning"), iter(rows)) if rows else ""
    yield f"Example:\n\n```sh\n{(parser.epilog or '').removeprefix('example:').strip()}\n```"


def usage(*parsers: argparse.ArgumentParser) -> str:
    """The usage lines; for a command with verbs, those of the verbs."""
    chosen = parsers[1:] or parsers
    lines = (parser.format_usage().removeprefix("usage:").strip() for parser in chosen)
    return "```text\n" + "\n".join(lines) + "\n```"


def arguments(parser: argparse.ArgumentParser, before: str) -> Iterator[tuple[str, str]]:
    """What needs a word beyond the usage line. argparse keeps its actions private, and offers no other way to them."""
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction | argparse._SubParsersAction):
            continue
        name = str(action.metavar or action.dest)
        if action.option_strings:
            value = "" if action.nargs == 0 else f" {action.metavar or action.dest.upper()}"
            name = ", ".join(action.option_strings) + value
        elif action.choices:
            name = "|".join(action.choices)
        if action.help:
            yield f"`{before}{name}`", action.help.replace("%%", "%")


def paragraph(text: str) -> str:
    """Lines that each begin with a word and a colon are a list; all others flow."""
    lines = text.splitlines()
    if len(lines) > 1 and all(line.partition(":")[0].isalpha() for line in lines):
        return "\n".join(f"- {' '.join(line.split())}" for line in lines)
    return text


def events() -> str:
    words = (
        "What the ledger keeps, in the order of the commits. `dogwatch events` shows them as sentences,"
        " `dogwatch events --json` whole ([json.md](json.md)). An event is never changed or removed.\n\n"
        "Every event has a `kind`, a `run` and an `agent` (empty where it is about none), and a `body` with the fields"
        " below. A field in square brackets is left out where it has nothing to say. Events of older versions may lack"
        " fields, and those of newer versions may have more. [events.schema.json](events.schema.json) is a JSON Schema"
        " for the lines of `dogwatch events --json`."
    )
    blocks = []
    for family, kinds in groupby(KINDS, key=lambda kind: KINDS[kind]):
        classes = [event_class(kind) for kind in kinds]
        blocks += [f"## {family.capitalize()}", sys.modules[classes[0].__module__].__doc__ or ""]
        rows = ((f"`{one.kind}`", meaning(one), fields_of(one)) for one in classes)
        blocks += [table(("kind", "meaning", "fields"), rows)]
    return page("the classes in `src/dogwatch/model/events/`", "# Events", words, *blocks)


def fields_of(kind: type[Event]) -> str:
    """The body's fields with their types."""
    hints, always = get_type_hints(kind), kind.required()
    found = ["`agent`: text"] if kind.repeats_agent else []
    for name, key in kind.keys.items():
        found.append(
            f"`{key}`: {type_words(hints[name])}" if key in always else f"[`{key}`: {type_words(hints[name])}]"
        )
    return "<br>".join(found)


def events_schema() -> str:
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


def verbs() -> str:
    """Every verb with its place, the fields of its request and of its answer, and its help text."""
    words = (
        "What an agent may ask its captain for. Each is a command for the agent, and a request at the door of its run:"
        " the Unix socket that `DOGWATCH_DOOR` names takes one JSON object on one line and answers with another.\n\n"
        "Besides the fields below a request has the verb as `op`, an id of its own as `op_id` (the same id counts"
        " once), and `run`, `agent` and `incarnation` as the agent's environment has them. The door checks who calls;"
        " fields that it does not know are ignored. An answer has `ok`; where it is false, there are `code`, `message`"
        " and `hint` instead of the fields below, and with the code `busy` the same call should be made again.\n\n"
        "A field in square brackets may be left out."
    )
    blocks = []
    for name in VERBS.names():
        verb = VERBS.load(name)
        blocks += [f"## {name}", f"`dogwatch {' '.join(place(name))}`", *(verb.words or "").strip().split("\n\n")]
        asked = [*request_rows(verb.request)]
        blocks += [table(("request", "type", "meaning"), iter(asked)) if asked else "The request has no fields."]
        told = [*answer_rows(verb.answer)]
        blocks += [table(("answer", "type"), iter(told)) if told else "The answer has no fields."]
        blocks += [f"Example:\n\n```sh\n{verb.example}\n```"]
    return page("the files in `src/dogwatch/door/verbs/`", "# Verbs", words, *blocks)


def request_rows(kind: type) -> Iterator[tuple[str, str, str]]:
    hints = get_type_hints(kind, include_extras=True)
    for field in dataclasses.fields(kind):
        plain, said = get_args(hints[field.name])
        if isinstance(said, Argument):
            is_needed = said.required or field.default is dataclasses.MISSING
            yield f"`{field.name}`" if is_needed else f"[`{field.name}`]", type_words(plain), said.help


def answer_rows(kind: type) -> Iterator[tuple[str, str]]:
    hints = get_type_hints(kind)
    for field in dataclasses.fields(kind):
        name = f"`{wire_name(field.name)}`" if field.default is dataclasses.MISSING else f"[`{wire_name(field.name)}`]"
        of = next((one for one in get_args(hints[field.name]) if dataclasses.is_dataclass(one)), None)
        parts = ", ".join(wire_name(part.name) for part in dataclasses.fields(of)) if of else ""
        yield name, f"list of {{{parts}}}" if parts else type_words(hints[field.name])


def spec() -> str:
    return page("the models in `src/dogwatch/spec/`", reference())


def exit_codes() -> str:
    kinds = [
        kind for _, kind in vars(errors).items() if inspect.isclass(kind) and issubclass(kind, errors.DogwatchError)
    ]
    known = ((f"{kind.exit_code}", f"`{kind.code}`", (kind.__doc__ or "").strip()) for kind in kinds)
    rows = (
        (f"`{name}`" if number == 0 else "", str(code), meaning)
        for name, codes in COMMAND_CODES.items()
        for number, (code, meaning) in enumerate(codes.items())
    )
    return page(
        "`src/dogwatch/errors.py`",
        "# Exit codes",
        "0 is success, also where the reader of a pipe has left; 130 is Ctrl-C. All others are an error of a named"
        " kind, or the outcome that the command tells. The numbers follow `sysexits.h` where one fits.",
        "## Errors",
        table(("exit code", "kind", "meaning"), known),
        "## By command",
        "What a code means for a command in particular. Every command can also end with 64 (wrong arguments) and with"
        " 74 (the ledger cannot be used).",
        table(("command", "exit code", "meaning"), rows),
    )


def lifecycles() -> str:
    blocks = ["# Lifecycles", "Each is one table in the code. A step that its table does not have is refused."]
    for lifecycle in LIFECYCLES:
        blocks += [f"## {lifecycle.name}", LIFECYCLE_WORDS[lifecycle.name], diagram(lifecycle)]
    return page("`src/dogwatch/model/lifecycle.py`", *blocks)


def diagram(lifecycle: Lifecycle) -> str:
    lines = ["stateDiagram-v2", "    direction LR", f"    [*] --> {lifecycle.first}"]
    for state, following in lifecycle.table.items():
        lines += [f"    {state} --> {after}" for after in following] or [f"    {state} --> [*]"]
    return "```mermaid\n" + "\n".join(lines) + "\n```"


def diagnoses() -> str:
    rows = (
        (
            f"`{kind}`",
            traits.meaning,
            "yes" if traits.silence_counts else "",
            ", ".join(traits.actions),
            traits.follows,
        )
        for kind, traits in DIAGNOSES.items()
    )
    return table(("diagnosis", "what was seen", "silence counts", "action", "what follows"), rows)


def rooms() -> str:
    contracts = architecture.read_contracts(ROOT / "pyproject.toml", "dogwatch")
    rows = architecture.room_table(SOURCE, contracts, architecture.imports_of("dogwatch"))
    return table(("folder", "what it is", "may import"), rows)


def contracts() -> str:
    return "\n".join(f"- {name}" for name in architecture.read_contracts(ROOT / "pyproject.toml", "dogwatch").names)


def imports() -> str:
    rooms = architecture.find_rooms(SOURCE, architecture.read_contracts(ROOT / "pyproject.toml", "dogwatch"))
    return architecture.diagram(architecture.imports_of("dogwatch"), rooms)


def inner_imports() -> str:
    return architecture.inner_diagram(architecture.imports_of("dogwatch"), "crew", "guard")


def settings() -> str:
    limits = next(part for part in reference().split("\n## ") if part.startswith("`limits`"))
    start = Moment("", 0.0, 0.0)
    run = RunRecord(run="run", spec="", project_folder=folder_at(""), output_folder=folder_at(""), created=start)
    told = agent_environment(Home("home"), run, AgentRecord(run="run", agent="agent", role="role", life=NotStarted()))
    agents = {name: AGENT_VARIABLES[name] for name in told}
    return page(
        "`actions/spawn.py`, the models in `spec/` and the tables in `scripts/docs.py`",
        "# Settings",
        "Two things can be set: a few variables of the environment, and the `limits` of a pipeline file.",
        "## Variables for operators",
        table(("variable", "meaning"), ((f"`{name}`", text) for name, text in OPERATOR_VARIABLES.items())),
        "## Variables that every agent is given",
        table(("variable", "meaning"), ((f"`{name}`", text) for name, text in agents.items())),
        "The role's own `environment` comes on top, without names that begin with `DOGWATCH_`. A gate's command is"
        " given the operator's environment with `DOGWATCH_HOME`, `DOGWATCH_RUN`, `DOGWATCH_PROJECT`, `DOGWATCH_OUTPUT`,"
        " `DOGWATCH_ROLE` (`gate:` and its name) and `DOGWATCH_INCARNATION` (the attempt), and starts in the output"
        " folder.",
        "## Further variables",
        table(("variable", "meaning"), ((f"`{name}`", text) for name, text in OTHER_VARIABLES.items())),
        "## " + limits.replace("`limits`", "`limits` of a pipeline file", 1),
        "`dogwatch run FILE --set limits.nudge_s=5` sets one for a single run.",
    )


PAGES: dict[str, Callable[[], str]] = {
    "cli.md": cli,
    "events.md": events,
    "events.schema.json": events_schema,
    "exit-codes.md": exit_codes,
    "lifecycles.md": lifecycles,
    "settings.md": settings,
    "spec.md": spec,
    "verbs.md": verbs,
}
PARTS: dict[str, dict[str, Callable[[], str]]] = {
    "docs/architecture.md": {
        "rooms": rooms,
        "contracts": contracts,
        "imports": imports,
        "inner imports": inner_imports,
    },
    "docs/concepts.md": {"diagnoses": diagnoses},
}


if __name__ == "__main__":
    raise SystemExit(main())
