"""Every kind of mistake in a pipeline file is reported once, at its line and column, with a hint where there is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from dogwatch.spec import check

BASE = """\
name: demo
vars: {topic: tides}
limits: {nudge_s: 5}
roles:
  writer:
    harness: command
    command: [cat]
  auditor:
    harness: command
    command: [cat]
    count: 2
  judge: {harness: command, command: [cat]}
phases:
  - name: draft
    dispatches:
      - name: draft
        to: writer
        task: Write about ${topic}.
        outputs: [draft.md]
      - name: audit
        to: all auditor
        task: Audit it.
        outputs: ["{agent}.md"]
        after: [draft]
    checkpoints:
      - name: review
        artifact: draft.md
        reviewers: [judge]
    gates:
      - name: spelling
        checks: [{path: draft.md, contains: [tide]}]
  - name: finish
    dispatches:
      - name: finish
        to: writer
        task: Finish it.
        outputs: [{path: final.md, kind: doc}]
milestones:
  drafted: {after: [draft]}
deliverable: {path: final.md}
"""


# What is replaced in BASE, by what, and the one problem that comes of it: position, message, hint.
# fmt: off
MISTAKES = [
    ("name: demo\n", "", "1:1", "'name' is missing", "The pipeline's name; runs are named"),
    ("name: demo", "name: Demo", "1:7", "'name' must be a lower-case letter, then at most 31", ""),
    ("name: demo", "name: 7", "1:7", "'name' must be text, not the number 7", "put it in quotes"),
    ("name: demo", "name:", "1:6", "'name' must be text, not nothing", "give it a value, or leave the key out"),
    ("name: demo", "name: demo\nname: other", "2:1", "'name' is given twice, first in line 1", "keep one of them"),
    ("name: demo", "name: demo\nversion: 2", "2:1", "unknown key 'version'", "known here: deliverable, limits,"),
    ("name: demo", "name: demo\nmilestons: {}", "2:1", "unknown key 'milestons'", "did you mean 'milestones'?"),
    ("name: demo", "name: demo\nsensitive: yes", "2:12", "'sensitive' must be true or false, not the text 'yes'", ""),
    ("name: demo", "name: demo\non_task_failure: ignore",
     "2:18", "'on_task_failure' must be 'fail' or 'partial', not the text", ""),
    ("name: demo", "name: !!python/name:os.system demo",
     "1:7", "the tag 'tag:yaml.org,2002:python/name:os.system' is not", "a pipeline file needs no tags: remove"),
    ("vars: {topic: tides}", "vars: {topic: [tides]}", "2:15", "'topic' must be text, not a list", ""),
    ("vars: {topic: tides}", "vars: {topic: tides, here: x}",
     "2:22", "the variable 'here' is reserved: it is the pipeline file's", "choose another name"),
    ("{nudge_s: 5}", "{nudge: 5}", "3:10", "unknown key 'nudge'", "did you mean 'nudge_s'?"),
    ("{nudge_s: 5}", '{nudge_s: "5"}',
     "3:19", "'nudge_s' must be a number, not the text '5'", "write it without quotes"),
    ("{nudge_s: 5}", "{nudge_s: true}", "3:19", "'nudge_s' must be a number, not true", ""),
    ("{nudge_s: 5}", "{nudge_s: 0}", "3:19", "'nudge_s' must be more than 0, not 0", ""),
    ("{nudge_s: 5}", "{nudge_s: 1e9}", "3:19", "'nudge_s' must be at most 2,592,000, not 1000000000", ""),
    ("{nudge_s: 5}", "{nudges_max: 2.5}", "3:22", "'nudges_max' must be a whole number, not the number 2.5", ""),
    ("{nudge_s: 5}", "{nudge_s: 12345678901234567890123456789012345678901234567890}",
     "3:19", "'nudge_s' must be at most 2,592,000, not 1.23456789012346e+49", ""),
    ("{nudge_s: 5}", "[nudge_s, 5]", "3:9", "'limits' must be a mapping of keys to values, not a list", ""),
    ("count: 2", 'count: "2"', "11:12", "'count' must be a whole number, not the text '2'", "write it without quotes"),
    ("count: 2", "count: 65", "11:12", "'count' must be at most 64, not 65", ""),
    ("count: 2", "cuont: 2", "11:5", "unknown key 'cuont'", "did you mean 'count'?"),
    ("  judge:", "  captain:\n    {harness: command, command: [cat]}\n  judge:",
     "12:3", "the role name 'captain' is reserved for dogwatch's own", "choose another name"),
    ("  judge:", "  auditor-2: {harness: command, command: [cat]}\n  judge:",
     "12:3", "the roles 'auditor' and 'auditor-2' both have an agent", "choose another name"),
    ("  judge:", "  Judge: {harness: command, command: [cat]}\n  judge:",
     "12:3", "'Judge' must be a lower-case letter, then at most 31", ""),
    ("  judge: {harness: command,", "  judge: {harness: comand,",
     "12:20", "'harness' must be 'scripted', 'command', 'claude', 'codex', ", "did you mean 'command'?"),
    ("  judge: {harness: command,", "  judge: {",
     "12:10", "'harness' is missing", "How the agent is driven: `claude`"),
    ("judge: {harness: command, command: [cat]}", "judge: {harness: command}",
     "12:10", "a role with the harness 'command' needs 'command'", "add `command: ...` to the role 'judge'"),
    ("judge: {harness: command, command: [cat]}", "judge: {harness: scripted, script: missing.yaml}",
     "12:38", "there is no scenario file 'missing.yaml'", "the path is relative to the pipeline"),
    ("judge: {harness: command, command: [cat]}", "judge: {harness: command, command: [cat], script: x.yaml}",
     "12:45", "'script' has no meaning with the harness 'command'", "remove it, or say `harness: scripted`"),
    ("judge: {harness: command, command: [cat]}", "judge: {harness: claude, command: [claude], script: a.yaml}",
     "12:47", "'script' has no meaning with the harness 'claude'", "remove it, or say `harness: scripted`"),
    ("judge: {harness: command, command: [cat]}", "judge: {harness: command, command: cat}",
     "12:38", "'command' must be a list, not the text 'cat'", "write [cat]"),
    ("judge: {harness: command, command: [cat]}", "judge: {harness: command, command: [cat, '']}",
     "12:44", "this must be more than blanks, not the text ''", ""),
    ("command: [cat]}", "command: [cat], environment: {DOGWATCH_HOME: x}}",
     "12:59", "environment variables that begin with DOGWATCH_ are reserved", "choose another name"),
    ("command: [cat]}", "command: [cat], environment: {PORT: 80}}",
     "12:65", "'PORT' must be text, not the number 80", "put it in quotes"),
    ("command: [cat]}", "command: [cat], environment: {MY-PORT: x}}",
     "12:59", "'MY-PORT' must be a letter or '_', then letters, digits or", ""),
    ("to: writer\n        task: Write", "to: writter\n        task: Write",
     "17:13", "there is no role or agent 'writter'", "did you mean 'writer'?"),
    ("to: writer\n        task: Write", "to: auditor\n        task: Write",
     "17:13", "the role 'auditor' has 2 holders", "say `all auditor`, `any auditor`, or"),
    ("to: writer\n        task: Write", "to: auditor-3\n        task: Write",
     "17:13", "there is no role or agent 'auditor-3'", "did you mean 'auditor-2'?"),
    ("to: all auditor", "to: all auditor-1",
     "21:13", "'auditor-1' is one agent, not a role", "say `to: auditor-1`, or `all` and a"),
    ("to: all auditor", "to: any auditors", "21:13", "there is no role 'auditors'", "did you mean 'auditor'?"),
    ("to: all auditor", "to: each auditor",
     "21:13", "'each auditor' is neither one name nor `all` or `any` and a", "say `writer`, `auditor-2`, `all"),
    ('["{agent}.md"]', "[audit.md]",
     "23:19", "all 2 holders of 'auditor' would write the same file", "put `{agent}` into the path"),
    ('["{agent}.md"]', '["{agnet}-{agent}.md"]',
     "23:19", "'{agnet}' in a path has no meaning", "known here: {agent}, {role}, {run}"),
    ('["{agent}.md"]', '["{agent}.md", "{agent}.md"]', "23:33", "'auditor-1.md' is given twice", "keep one of them"),
    ("${topic}", "${topik}", "18:27", "there is no variable 'topik'", "did you mean 'topic'? (`$${` stands"),
    ("${topic}", "${topic", "18:27", "'${' has no '}' after it", "write `$${` for the characters '${'"),
    ("task: Audit it.", 'task: " "', "22:15", "'task' must be more than blanks, not the text ' '", ""),
    ("[draft.md]", "[/tmp/draft.md, draft.md]",
     "19:19", "the path '/tmp/draft.md' is not relative", "paths start in the run's output folder"),
    ("[draft.md]", "[../draft.md, draft.md]",
     "19:19", "the path '../draft.md' leads out of the output folder", "write it without '..'"),
    ("[draft.md]", "[a//b.md, draft.md]",
     "19:19", "the path 'a//b.md' has an empty part or a '.' in it", "write it like `charts/tides.png`"),
    ("[draft.md]", "[a b.md, draft.md]",
     "19:19", "the path 'a b.md' has a blank or a backslash in it", "use '-' or '/' instead"),
    ("[draft.md]", "[draft.md, {path: x.md, kind: Big}]",
     "19:48", "'kind' must be a lower-case letter, then at most 31", ""),
    ("[draft.md]", "[draft.md, {kind: doc}]", "19:29", "'path' is missing", "Where, relative to the run's output"),
    ("[draft.md]", "[draft.md, 3]", "19:29", "this must be a mapping of keys to values, not the number 3", ""),
    ("[draft.md]", "draft.md", "19:18", "'outputs' must be a list, not the text 'draft.md'", "write [draft.md]"),
    ("after: [draft]\n    ch", "after: [draf]\n    ch",
     "24:17", "there is no dispatch 'draf'", "did you mean 'draft'?"),
    ("after: [draft]\n    ch", "after: [finish]\n    ch",
     "24:17", "'finish' comes only in the later phase 'finish'", "move 'finish' into this phase, or"),
    ("after: [draft]\n    ch", "after: [audit]\n    ch", "24:17", "'audit' cannot come after itself", "remove it"),
    ("after: [draft]\n    ch", "after: [draft, draft]\n    ch", "24:24", "'draft' is named twice", "keep one of them"),
    ("outputs: [draft.md]", "outputs: [draft.md]\n        after: [audit]",
     "25:17", "these dispatches wait for each other: draft waits for audit", "remove one `after`"),
    ("outputs: [draft.md]", "outputs: [draft.md]\n        risk: hihg",
     "20:15", "'risk' must be 'normal', 'high' or 'critical', not the text", "did you mean 'high'?"),
    ("outputs: [draft.md]", "outputs: [draft.md]\n        attempts: 0",
     "20:19", "'attempts' must be at least 1, not 0", ""),
    ("- name: audit", "- name: draft",
     "20:15", "the dispatch name 'draft' is given twice, first in line 16", "rename one of them"),
    ('outputs: ["{agent}.md"]\n        after: [draft]',
     'outputs: ["{agent}.md"]\n      - {name: third, to: judge, task: x, outputs: [draft.md]}',
     "24:53", "'draft.md' is written by 'draft' too, perhaps at the same time", "say `after: [draft]`, or use another"),
    ("- name: finish\n    d", "- name: draft\n    d",
     "32:11", "the phase name 'draft' is given twice, first in line 14", "rename one of them"),
    ("artifact: draft.md", "artifact: drat.md",
     "27:19", "no dispatch so far writes 'drat.md'", "did you mean 'draft.md'?"),
    ("artifact: draft.md", "artifact: final.md",
     "27:19", "'final.md' is written only in the later phase 'finish'", "move the checkpoint there"),
    ("reviewers: [judge]", "reviewers: [jugde]", "28:21", "there is no role or agent 'jugde'", "did you mean 'judge'?"),
    ("reviewers: [judge]", "reviewers: [writer]",
     "28:21", "'writer' writes 'draft.md' in 'draft' and cannot review it", "name somebody who has no part in it"),
    ("reviewers: [judge]", "reviewers: [auditor, auditor-1]",
     "28:30", "'auditor-1' is named twice, as 'auditor' and as 'auditor-1'", "keep one of them"),
    ("reviewers: [judge]", "reviewers: []", "28:20", "'reviewers' must have at least 1 entry", ""),
    ("    gates:\n", "      - {name: review, artifact: draft.md, reviewers: [judge]}\n    gates:\n",
     "29:16", "the checkpoint name 'review' is given twice, first in line 26", "rename one of them"),
    ("checks: [{path: draft.md, contains: [tide]}]", "timeout_s: 3",
     "30:9", "a gate needs 'command', 'checks' or 'partitions'", "a gate without a check would let all"),
    ("checks: [{path: draft.md, contains: [tide]}]", "command: ['true']\n        checks: [{path: draft.md}]",
     "32:9", "a gate has either 'command' or 'checks', not both", "make two gates of it"),
    ("checks: [{path: draft.md, contains: [tide]}]", "partitions: [{database: 'mysql://a/b', table: t}]",
     "31:33", "the database is neither SQLite nor PostgreSQL", "write sqlite:PATH or postgresql://USER@HOST/NAME"),
    ("checks: [{path: draft.md, contains: [tide]}]", "partitions: [{database: 'postgresql://a:b@c/d', table: t}]",
     "31:33", "a password does not belong here", "leave it out; ~/.pgpass or PGPASSFILE is read"),
    ("checks: [{path: draft.md, contains: [tide]}]", "partitions: [{database: 'sqlite:', table: t}]",
     "31:33", "the database has no path", "write sqlite:data/market.db"),
    ("checks: [{path: draft.md, contains: [tide]}]", "partitions: [{database: 'sqlite:d', table: t, max_age_s: 9}]",
     "31:55", "'max_age_s' needs 'dated_by'", "name the column that says when a row was made"),
    ("contains: [tide]", "matches: '('",
     "31:44", "not a regular expression: missing ), unterminated subpattern", "in single quotes, YAML leaves"),
    ("contains: [tide]", "min_bytes: 9, max_bytes: 3", "31:60", "'max_bytes' is less than 'min_bytes', which is 9", ""),
    ("contains: [tide]", "sha256: abc", "31:43", "'sha256' must be 64 hexadecimal digits in lower case, not the", ""),
    ("contains: [tide]", "contains: tide", "31:45", "'contains' must be a list, not the text 'tide'", "write [tide]"),
    ("path: draft.md, contains", "path: '{agent}.md', contains",
     "31:25", "'{agent}' is not filled in here", "write the file's name in full"),
    ("      - name: spelling\n", "      - {name: spelling, command: ['true']}\n      - name: spelling\n",
     "31:15", "the gate name 'spelling' is given twice, first in line 30", "rename one of them"),
    ("  - name: finish\n    d", "  - name: empty\n  - name: finish\n    d",
     "32:5", "the phase has nothing to do", "give it dispatches, or remove it"),
    ("{after: [draft]}", "{after: [drafted]}", "39:21", "there is no dispatch 'drafted'", "did you mean 'draft'?"),
    ("{after: [draft]}", "{}", "39:12", "'after' is missing", "The dispatches that make it up."),
    ("deliverable: {path: final.md}", "deliverable: {path: fnal.md}",
     "40:21", "no dispatch writes the deliverable 'fnal.md'", "did you mean 'final.md'?"),
    ("deliverable: {path: final.md}", "deliverable: final.md",
     "40:14", "'deliverable' must be a mapping of keys to values, not the", ""),
    ("deliverable: {path: final.md}", "deliverable: {path: final.md}\n---\nname: two",
     "41:1", "the file has more than one document", "remove the line `---` and what follows"),
    ("deliverable: {path: final.md}", "deliverable: {path: ${topic}.md}",
     "40:22", "not valid YAML: expected ',' or '}', but got '{'", "put quotes around a text that holds"),
    ("  writer:\n", "\twriter:\n",
     "5:1", "not valid YAML: found character '\\t' that cannot start any", "indent with spaces: YAML does not"),
    ("  judge:", "  <<: {}\n  judge:", "12:3", "merge keys are not known here", "repeat the keys, or use an alias for"),
    ("  judge:", "  ? [a]\n  : b\n  judge:",
     "12:5", "a key must be plain text", "quote text that begins with '{' or '['"),
    ("limits: {nudge_s: 5}", "limits: &l {nudge_s: *l}",
     "3:9", "an alias leads back to itself", "write it out, or split the pipeline"),
]
# fmt: on


def test_the_file_that_the_mistakes_are_made_in_is_right(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(BASE)
    assert check(file) == []


@pytest.mark.parametrize(("old", "new", "position", "message", "hint"), MISTAKES)
def test_a_mistake_is_reported_once_at_its_place(
    tmp_path: Path, old: str, new: str, position: str, message: str, hint: str
) -> None:
    assert old in BASE
    file = tmp_path / "pipeline.yaml"
    file.write_text(BASE.replace(old, new, 1))
    problems = check(file)
    assert [f"{problem.line}:{problem.column}" for problem in problems] == [position]
    assert message in problems[0].message
    assert (hint in problems[0].hint) if hint else not problems[0].hint
