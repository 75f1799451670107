"""The form of a pipeline file: every key with its type, its bounds and its meaning.

The JSON Schema and the reference page are made from these models, so each description is written for users.
What needs more than one key to decide (who may review, which names exist) is in `rules`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, WithJsonSchema, model_validator

from dogwatch.model import plan

NAME = r"^[a-z][a-z0-9_-]{0,31}$"
VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]{0,63}$"
VARIABLES = r"^(?:[A-Za-z_][A-Za-z0-9_]{0,63}\*?|\*)$"
KIND = r"^[a-z][a-z_-]{0,31}$"
SHA256 = r"^[0-9a-f]{64}$"
NON_BLANK = r"\S"

PATTERN_MEANINGS = {
    NAME: "a lower-case letter, then at most 31 lower-case letters, digits, '-' or '_'",
    VARIABLE: "a letter or '_', then letters, digits or '_'",
    VARIABLES: "the name of a variable, its beginning with a '*' behind it, or '*' alone",
    KIND: "a lower-case letter, then at most 31 lower-case letters, '-' or '_'",
    SHA256: "64 hexadecimal digits in lower case",
    NON_BLANK: "more than blanks",
}

PHASES_MAX = 50
AGENTS_MAX = 200
DAY_S = 86400.0

Name = Annotated[str, StringConstraints(pattern=NAME)]
VariablePattern = Annotated[str, StringConstraints(pattern=VARIABLES)]
VariableName = Annotated[str, StringConstraints(pattern=VARIABLE)]
Text = Annotated[str, StringConstraints(max_length=65536)]
Required = Annotated[str, StringConstraints(pattern=NON_BLANK, max_length=65536)]
Word = Annotated[str, StringConstraints(pattern=NON_BLANK, max_length=1024)]
FilePath = Annotated[str, StringConstraints(pattern=NON_BLANK, max_length=240)]
Value = Annotated[Text, WithJsonSchema({"type": ["string", "number", "boolean"], "maxLength": 65536})]
Seconds = Annotated[float, Field(gt=0, le=30 * DAY_S)]
Bytes = Annotated[int, Field(ge=0, le=2**40)]

_LIMITS = plan.Limits()
LimitName = Annotated[str, StringConstraints(pattern=f"^({'|'.join(plan.OWN_LIMITS)})$")]
OwnLimits = dict[LimitName, Annotated[float, Field(ge=0, le=30 * DAY_S)]]
_NOTIFY = plan.Notify()


class Part(BaseModel):
    """What all parts of the file have in common: no unknown keys, no conversion between types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class Output(Part):
    """A file that a task must write. Where the path is all there is to say, the path alone will do."""

    model_config = ConfigDict(json_schema_extra=lambda schema: _or_path_alone(schema))

    path: FilePath = Field(
        description="Where, relative to the run's output folder. `{agent}`, `{role}` and `{run}` are filled in."
    )
    kind: Annotated[str, StringConstraints(pattern=KIND)] = Field(
        "file", description="What it is, for progress and reports: `doc`, `chart`, `data`, ..."
    )
    min_bytes: Bytes = Field(1, description="The file counts as written once it has this many bytes.")

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        return {"path": value} if isinstance(value, str) else value


HarnessName = Literal["scripted", "command", "claude", "codex", "opencode", "gemini"]
HARNESSES: tuple[str, ...] = get_args(HarnessName)


class ByteCheck(Part):
    """What must be true of a file's bytes. All conditions that are given must hold."""

    path: FilePath = Field(description="The file, relative to the run's output folder.")
    min_bytes: Bytes = Field(1, description="It has at least this many bytes.")
    max_bytes: Bytes | None = Field(None, description="It has at most this many bytes.")
    contains: list[Required] = Field([], max_length=100, description="Each of these texts occurs in it.")
    lacks: list[Required] = Field([], max_length=100, description="None of these texts occurs in it.")
    matches: Text = Field("", description="This regular expression (Python's) is found in it.")
    json_: bool = Field(False, alias="json", description="It is valid JSON.")
    sha256: Annotated[str, StringConstraints(pattern=SHA256)] | None = Field(
        None, description="The SHA-256 digest of its bytes."
    )


class Role(Part):
    """A kind of agent: how it is started and what it may do."""

    harness: HarnessName = Field(
        description="How the agent is driven: `claude` is Claude Code, `codex` is Codex, `opencode` is OpenCode,"
        " `gemini` is the Gemini CLI, each with its own login and configuration; `scripted` plays a scenario file and"
        " needs no model; `command` starts any program."
    )
    script: FilePath | None = Field(
        None, description="For `scripted`: the scenario file, relative to the pipeline file. It must exist."
    )
    command: list[Required] = Field(
        [],
        max_length=1000,
        description="For `command`: the program and its arguments; for a real client the program to start instead of"
        " the one of its name on the PATH, with more arguments of its own. `${here}` is the pipeline file's folder.",
    )
    prompt: Text = Field("", description="Who its holders are and how they work; stands before each task.")
    instructions: FilePath | None = Field(
        None,
        description="A file that its holders must have read, relative to the pipeline file. It must exist. When it is"
        " changed in the middle of a run, they are told, and their mail is held until they have read it. Its version is"
        " the `version:` of its front matter, else the beginning of its SHA-256.",
    )
    capabilities: list[Name] = Field(
        [],
        max_length=50,
        description="What its holders are trusted with, such as `write`. Kept with the plan; nothing reads it yet.",
    )
    permissions: list[Word] = Field(
        [],
        max_length=200,
        description="Tool permissions in the agent CLI's own notation, such as `Bash(git *)`. For real agent CLIs;"
        " scripted agents and plain commands do not read it.",
    )
    credential: Name | None = Field(
        None,
        description="The account that its client works on, by a name of yours. Roles with the same one are held"
        " together when its provider refuses work, and share the cap that `host.yaml` may set for it. One for each"
        " harness if not given.",
    )
    sandbox: Literal["auto", "strict", "off"] | None = Field(
        None,
        description="A namespace of its own, in which foreign processes and tmux servers do not exist: `auto` wherever"
        " bubblewrap works, `strict` refuses to start without, `off` never. `auto` if not given; `off` for `scripted`.",
    )
    environment: dict[VariableName, Text] = Field(
        {}, max_length=200, description="Environment variables for its holders. Names with `DOGWATCH_` are reserved."
    )
    inherit: list[VariablePattern] = Field(
        [],
        max_length=200,
        description="Variables of your own environment that its holders get besides the harmless ones and those that"
        " their client needs: names, `PREFIX_*`, or `*` for all. For secrets this is the better way: what stands in"
        " `environment` is kept in the ledger.",
    )
    limits: OwnLimits = Field(
        {}, description="Thresholds of the file's `limits` that are others for its holders, such as `nudge_s: 120`."
    )
    memory_max_gb: float = Field(
        0.0,
        ge=0,
        le=4096,
        description="How much memory each holder may take, with everything that it starts, before the kernel ends what"
        " has taken it. Never more than `agent_memory` in the host's `host.yaml`, which counts with 0. Where control"
        " groups allow no limit, `dogwatch doctor` says so.",
    )
    count: int = Field(
        1,
        ge=1,
        le=64,
        description="How many agents hold the role. With 1 the agent has the role's name, with more they are"
        " numbered: `auditor-1`, `auditor-2`, ...",
    )


class Dispatch(Part):
    """An order of the captain: to whom, what, which files must come of it, and how long it should take."""

    name: Name = Field(description="Its name, unique in the whole file.")
    to: Annotated[str, StringConstraints(pattern=NON_BLANK, max_length=80)] = Field(
        description="A role with one holder (`writer`), a numbered agent (`auditor-2`), `all auditor` (each holder"
        " does it) or `any auditor` (the first to claim it does it)."
    )
    task: Required = Field(
        description="What to do, in plain words. `{agent}`, `{role}` and `{run}` are filled in for each agent."
    )
    outputs: list[Output] = Field([], max_length=200, description="The files that must come of it.")
    risk: Literal["normal", "high", "critical"] = Field(
        "normal", description="How much harm a failure would do: `claim_s` and its like go by it."
    )
    expect_s: Seconds | None = Field(
        None,
        description="How long it should take. When it takes half as long again, and twice later, an alert says so."
        " Where nothing is said, `time_limits` counts for the holder's name; else it is learnt from the role's earlier"
        " tasks once there are ten, and 1,800 s before.",
    )
    after: list[Name] = Field(
        [], max_length=200, description="Dispatches of this or an earlier phase that must be accepted first."
    )
    attempts: int = Field(
        2, ge=1, le=20, description="How often it may be tried before it has failed; `on_task_failure` decides then."
    )
    limits: OwnLimits = Field(
        {}, description="Thresholds that are others while this is being done; before those of the role."
    )


class Checkpoint(Part):
    """A review of an artifact by agents that did not write it: APPROVE, or REVISE with a note to the author."""

    name: Name = Field(description="Its name, unique among all checkpoints.")
    artifact: FilePath = Field(
        description="The file to review: an output of a dispatch of this or an earlier phase. Its holder is the author."
    )
    reviewers: list[Name] = Field(
        min_length=1,
        max_length=50,
        description="Who reviews it: roles (all of their holders) or agents. All must approve. The author may not.",
    )
    question: Text = Field("", description="What they shall judge. `{agent}`, `{role}` and `{run}` are filled in.")
    rounds_max: int = Field(3, ge=1, le=20, description="After this many rounds without approval the run has failed.")
    validators: list[Word] = Field(
        list(plan.VALIDATORS),
        max_length=50,
        description="Patterns of sub-agent types and agents whose DISAGREE counts: before the approval as REVISE, after"
        " it the step is opened again. With `[]` nobody's does but the reviewers'.",
    )


class Partition(Part):
    """Data that must be there before the phase begins: rows of a table, counted in a database that is only read."""

    database: Required = Field(
        description="`sqlite:PATH`, relative to the pipeline file, or `postgresql://USER@HOST/NAME`; a password is"
        " found where libpq looks for it, as in `~/.pgpass`, never here."
    )
    table: Required = Field(description="The table, or `schema.table`.")
    partition: dict[Required, str | int] = Field(
        {}, max_length=20, description="Columns with the values that the rows must have; without any, all rows count."
    )
    min_rows: int = Field(1, ge=1, description="So many rows at least; fewer, and it is empty.")
    dated_by: Text = Field("", description="The column that says when a row was made: a time, a day, or a number.")
    max_age_s: Seconds = Field(86400.0, description="Older than this, the newest row is stale; needs `dated_by`.")


class Gate(Part):
    """A check that blocks: the next phase comes only when it passes. It has a command, or byte checks, or partitions:
    those stand at the beginning of their phase, which waits for its data."""

    name: Name = Field(description="Its name, unique in its phase.")
    command: list[Required] = Field(
        [],
        max_length=1000,
        description="A program and its arguments, run in the run's output folder; it passes with exit code 0. A"
        " program that is missing has failed.",
    )
    checks: list[ByteCheck] = Field([], max_length=200, description="Byte checks; it passes when all of them hold.")
    partitions: list[Partition] = Field(
        [], max_length=200, description="Data; it passes, before the phase begins, as soon as all of it is there."
    )
    timeout_s: Seconds = Field(
        600.0, description="A command that takes longer, or data that comes later, and the gate has failed."
    )


class Phase(Part):
    """Dispatches that belong together, then their checkpoints, then the gates; only then comes the next phase."""

    name: Name = Field(description="Its name, unique among the phases.")
    dispatches: list[Dispatch] = Field(
        [], max_length=500, description="The orders of this phase. They run side by side unless `after` says otherwise."
    )
    checkpoints: list[Checkpoint] = Field([], max_length=100, description="The reviews that follow the dispatches.")
    gates: list[Gate] = Field([], max_length=100, description="The checks of the phase, in this order.")


class Milestone(Part):
    """A name for the moment when all of these dispatches are accepted."""

    after: list[Name] = Field(min_length=1, max_length=200, description="The dispatches that make it up.")


class Limits(Part):
    """Thresholds and caps. All are optional; the defaults suit agents that work for hours."""

    startup_s: Seconds = Field(_LIMITS.startup_s, description="How long an agent may take to come to its prompt.")
    sweep_s: Annotated[float, Field(ge=0.05, le=3600)] = Field(
        _LIMITS.sweep_s, description="How often all agents are looked at. That one has exited is noticed at once."
    )
    nudge_s: Seconds = Field(
        _LIMITS.nudge_s, description="An agent at its prompt with unfinished work is nudged after this much silence."
    )
    peek_s: Seconds = Field(
        _LIMITS.peek_s,
        description="With all outputs written, this much silence means that only the report was lost: the work counts.",
    )
    nudges_max: int = Field(
        _LIMITS.nudges_max, ge=0, le=100, description="Nudges without effect before the agent is restarted."
    )
    restarts_max: int = Field(
        _LIMITS.restarts_max,
        ge=0,
        le=100,
        description="Restarts of an agent within `restart_period_s` before it is given up.",
    )
    restart_period_s: Seconds = Field(_LIMITS.restart_period_s, description="The time over which restarts are counted.")
    restart_backoff_s: Annotated[float, Field(ge=0, le=3600)] = Field(
        _LIMITS.restart_backoff_s,
        description="The wait before a second restart; it doubles with each further one.",
    )
    receipt_s: Seconds = Field(
        _LIMITS.receipt_s,
        description="How long a client may take to confirm a message before it is typed again.",
    )
    long_tool_s: Seconds = Field(
        _LIMITS.long_tool_s, description="A tool that has run for longer is named as what the agent waits for."
    )
    tool_max_s: Annotated[float, Field(ge=0, le=30 * DAY_S)] = Field(
        _LIMITS.tool_max_s, description="A tool that has run for longer is interrupted; 0: none ever is."
    )
    repeats_max: int = Field(
        _LIMITS.repeats_max,
        ge=2,
        le=10000,
        description="The same tool call so often in a row is a loop, and so are two to four that take turns.",
    )
    stops_max: int = Field(
        _LIMITS.stops_max,
        ge=1,
        le=1000,
        description="How often in one turn an agent may try to stop again after a hook held it; one more is a loop.",
    )
    context_max: float = Field(
        _LIMITS.context_max, gt=0, le=1, description="The used share of an agent's context from which on it is low."
    )
    dialog_s: Seconds = Field(
        _LIMITS.dialog_s, description="A dialog that has stood on the screen for this long waits for a person."
    )
    subagent_s: Seconds = Field(
        _LIMITS.subagent_s,
        description="How long a sub-agent may run without output whose type matches no pattern of `time_limits`.",
    )
    claim_s: Seconds = Field(
        _LIMITS.claim_s,
        description="An agent that holds a task and has given no sign of life for this long is asked for one.",
    )
    claim_high_s: Seconds = Field(_LIMITS.claim_high_s, description="The same for tasks with `risk: high`.")
    claim_critical_s: Seconds = Field(_LIMITS.claim_critical_s, description="The same for tasks with `risk: critical`.")
    probe_s: Seconds = Field(
        _LIMITS.probe_s, description="How long an agent that was asked for a sign of life may take to give one."
    )
    unresponsive_s: Seconds = Field(
        _LIMITS.unresponsive_s, description="An agent that has been stalled for this long counts as unresponsive."
    )
    tier1_s: Seconds = Field(_LIMITS.tier1_s, description="Silence after which an alert is logged.")
    tier2_s: Seconds = Field(_LIMITS.tier2_s, description="Silence after which an alert is sent.")
    tier3_s: Seconds = Field(
        _LIMITS.tier3_s, description="Silence after which an alert is critical and calls a person."
    )
    checkpoint_s: Seconds = Field(
        _LIMITS.checkpoint_s, description="How long nothing may be written after an approval."
    )
    hold_s: Seconds = Field(
        _LIMITS.hold_s, description="How long nobody is started or nudged after the provider has refused a turn."
    )
    refresh_s: Seconds = Field(
        _LIMITS.refresh_s,
        description="How long the mail of an agent that was told of new `instructions` is held, where it does not read"
        " them.",
    )
    refresh_wave: int = Field(
        _LIMITS.refresh_wave,
        ge=1,
        le=1000,
        description="How many agents at a time are told of new `instructions`; then the next ones.",
    )
    mass_hold_s: Annotated[float, Field(ge=0, le=3600)] = Field(
        _LIMITS.mass_hold_s,
        description="When most agents seem dead at one instant, how long nothing is done but to look again.",
    )
    run_quiet_s: Seconds = Field(
        _LIMITS.run_quiet_s, description="A run that has made no progress for this long calls a person."
    )
    run_grace_s: Seconds = Field(
        _LIMITS.run_grace_s, description="How long after that the run ends, unless it moves again."
    )
    deadline_s: Seconds = Field(_LIMITS.deadline_s, description="The whole run must end within this time.")


class Notify(Part):
    """How a person is told of what needs one, once for each thing. A pipeline that names neither targets nor a command
    uses `DOGWATCH_NOTIFY` and `DOGWATCH_NOTIFY_TARGETS` of the environment; without these nothing is sent."""

    targets: list[Word] = Field(
        [],
        max_length=50,
        description="Where to, as URLs of [apprise](https://github.com/caronc/apprise/wiki): `mailto://`, `ntfy://`,"
        " `json://`, ... They may hold secrets and are kept in the ledger with the run; `targets_file` is not.",
    )
    targets_file: FilePath | None = Field(
        None,
        description="A file with more targets, one URL a line, `#` begins a comment line; relative to the pipeline"
        " file. It must exist, and is read anew for each notification.",
    )
    command: list[Required] = Field(
        [],
        max_length=1000,
        description="A program and its arguments. It gets the notification as JSON on standard input and as"
        " `DOGWATCH_NOTICE_*` variables, and has done its part with exit code 0.",
    )
    on: list[plan.NoticeKind] = Field(
        list(_NOTIFY.on),
        description="What is told: `escalation` (dogwatch is at its wits' end), `permission` (an agent waits at a"
        " permission dialog), `quarantine` (an agent is not started again), `ended` (the run ended without its"
        " deliverable), `held` (the fleet is held). With `[]` nothing is.",
    )


class Pipeline(Part):
    """A pipeline: roles, and the phases in which they work."""

    name: Name = Field(description="The pipeline's name; runs are named after it.")
    sensitive: bool = Field(False, description="Keeps what stands on screens and in mail out of events and logs.")
    vars: dict[VariableName, Value] = Field(
        {},
        max_length=200,
        description="Variables with their defaults. `${name}` in any text of the file stands for the value, `$${` for"
        " `${` itself; `--set name=value` sets another value for one run.",
    )
    limits: Limits = Field(Limits.model_validate({}), description="Thresholds and caps.")
    time_limits: dict[Word, Seconds] = Field(
        {},
        max_length=200,
        description="How long sub-agents may run without output, and how long tasks of roles and agents are expected to"
        " take, in seconds by patterns of their names such as `analyst-*`; the longest pattern that matches counts."
        " Built in are `aa-data-step*` 600, `aa-execution-step*` 900, `aa-framework`, `aa-data` and `aa-final` 1800."
        " Where none matches, `subagent_s` and what was learnt count.",
    )
    notify: Notify = Field(Notify.model_validate({}), description="How a person is told of what needs one.")
    on_task_failure: Literal["fail", "partial"] = Field(
        "fail",
        description="When a task has used up its attempts: `fail` ends the run, `partial` goes on with what does not"
        " depend on it and says so in the end.",
    )
    roles: dict[Name, Role] = Field(min_length=1, max_length=AGENTS_MAX, description="The roles, by name.")
    phases: list[Phase] = Field(
        min_length=1, max_length=PHASES_MAX, description="The phases, one after another in this order."
    )
    milestones: dict[Name, Milestone] = Field({}, max_length=200, description="Names for moments of progress.")
    deliverable: ByteCheck = Field(
        description="What the run is for: an output of one of its dispatches, checked once more at the end."
    )


def _or_path_alone(schema: dict[str, Any]) -> None:
    long_form = {key: schema.pop(key) for key in ("properties", "required", "additionalProperties", "type")}
    short_form = {"type": "string", "pattern": NON_BLANK, "maxLength": 240}
    schema["anyOf"] = [short_form, long_form]


def json_schema() -> dict[str, Any]:
    """The file's form as a JSON Schema (draft 2020-12), for editors and other tools."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Pipeline.model_json_schema()}
    schema["title"] = "dogwatch pipeline"
    _close(schema)
    return schema


def _close(schema: Any) -> None:
    """Refuses keys that match no pattern, as the models do, and drops the titles that only repeat a key."""
    if isinstance(schema, list):
        for item in schema:
            _close(item)
    if isinstance(schema, dict):
        if "patternProperties" in schema:
            schema["additionalProperties"] = False
        for key, item in schema.items():
            if key == "properties":
                for field in item.values():
                    field.pop("title", None)
            _close(item)
