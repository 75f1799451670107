"""Values are followed through the whole command: branches, loops, functions, subshells, files, time."""

from __future__ import annotations

import pytest

from dogwatch.guard.judge import Caller, judge

DENIED = [
    # branches
    "if a; then k=kill; else k=ls; fi; $k 4321",
    "a && k=kill; $k 4321",
    "a || k=kill; $k 4321",
    "k=ls; a && k=kill || k=cat; $k 4321",
    "k=ls; case $x in a) k=kill;; esac; $k 4321",
    "PID=$!; a && PID=4321; kill $PID",
    # loops
    "for k in ls kill; do $k 4321; done",
    "for k in ls kill; do :; done; $k 4321",
    "for k in kill ls; do [ $x ] && break; done; $k 4321",
    "for c in k i l l; do s+=$c; done; $s 4321",
    "k=ls; while a; do $k 4321; k=kill; done",
    "c=kill; b=ls; a=ls; while x; do $a 4321; a=$b; b=$c; done",
    "d=kill; c=ls; b=ls; a=ls; until x; do $a 4321; a=$b; b=$c; c=$d; done",
    "while read k; do $k 4321; done <<< kill",
    "printf 'ls\\nkill\\n' | while read k; do $k 4321; done",
    "for ((i = 0; i < 3; i++)); do kill $i; done",
    "for i in {1..200}; do kill $i; done",
    # functions
    "f() { k=kill; }; f; $k 4321",
    "f() { local k=kill; $k 4321; }; f",
    "f() { echo kill; }; $(f) 4321",
    "f() { k=kill; return; k=ls; }; f; $k 4321",
    "f() { g; }; g() { kill 4321; }; f",
    'f() { [ $# -gt 9 ] && $1 4321 || f "$@" x; }; f kill',
    'f() { kill "$1"; }; f 4321',
    "f() { shift; $1 $2; }; f x kill 4321",
    "k=kill; f() { local k=ls; g; }; g() { :; }; f; $k 4321",
    "if a; then f() { ls; }; else f() { kill 4321; }; fi; f",
    # subshells and pipes
    "k=kill; ($k 4321)",
    "(k=kill; $k 4321)",
    "echo kill | { read k; $k 4321; }",
    "{ k=kill; } && $k 4321",
    "k=$(k=ls; echo kill); $k 4321",
    # arrays and parameters
    'a=(x); a+=(kill 4321); "${a[@]:1}"',
    "a[3]=kill; ${a[3]} 4321",
    'declare -A m; m[x]=kill; for k in "${m[@]}"; do $k 4321; done',
    "set -- ls kill; shift; $1 4321",
    'set -- kill 4321; "$@"',
    "IFS=/; k=kill/4321; $k",
    "IFS=$X; k=killZ4321; $k",
    # files
    "echo 'kill 4321' > f; cat f > g; sh g",
    "if a; then echo 'kill 4321' > f; else echo ls > f; fi; sh f",
    'for i in 1 2 3; do echo "kill 432$i" > f$i; done; sh f2',
    "for i in {1..90}; do echo ls > f$i; done; echo 'kill 4321' > z; sh z",
    "sh f & sleep 1; echo 'kill 4321' > f",
    "exec 3<<< 'kill 4321'; sh <&3",
    "exec <<< 'kill 4321'; sh",
    # time
    "trap '$k 4321' EXIT; k=kill; k=ls",
    "trap \"trap 'kill 4321' EXIT\" EXIT",
]
ALLOWED = [
    "if a; then k=cat; else k=ls; fi; $k 4321",
    "k=kill; k=ls; $k 4321",
    "k=kill; (k=ls); echo $k",
    "(k=kill); k=ls; $k 4321",
    "f() { local k=kill; }; k=ls; f; $k 4321",
    "f() { kill 4321; }; f() { ls; }; f",
    "f() { kill 4321; }; unset -f f; ls",
    "for k in ls cat; do $k 4321; done",
    "n=0; while [ $n -lt 3 ]; do n=$((n + 1)); sleep $n; done",
    "for i in {1..200}; do echo $i; done",
    "npm start & PID=$!; for i in 1 2 3; do curl x && break; done; kill $PID",
    "npm start & PID=$!; while kill -0 $PID; do sleep 1; done",
    'P=; for i in 1 2 3; do sleep 9 & P="$P $!"; done; kill $P',
    'P=(); while a; do sleep 9 & P+=($!); done; kill "${P[@]}"',
    "case start in start) npm start;; stop) kill $(cat pid);; esac",
    "f() { case $1 in start) npm start;; stop) kill $(cat pid);; esac; }; f start",
    "cat > ctl.sh <<'E'\ncase $1 in start) npm start & ;; stop) pkill node ;; esac\nE\nbash ctl.sh start",
    "echo 'kill 4321' > f; echo ls > g; sh g",
    "echo 'kill 4321' > notes; cat notes",
    "trap 'kill $PID' EXIT; PID=; npm start & PID=$!",
    'walk() { for f in "$1"/*; do [ -d "$f" ] && walk "$f"; done; }; walk .',
    "fact() { [ $1 -le 1 ] && echo 1 || echo $(( $1 * $(fact $(( $1 - 1 ))) )); }; fact 5",
]


@pytest.mark.parametrize("command", DENIED)
def test_harm_is_found_however_its_parts_come_together(command: str) -> None:
    verdict = judge(command, Caller())
    assert not verdict.allowed
    assert verdict.rule not in ("parse", "too-complex", "guard.error"), verdict


@pytest.mark.parametrize("command", ALLOWED)
def test_values_that_are_gone_or_never_reached_do_no_harm(command: str) -> None:
    verdict = judge(command, Caller())
    assert verdict.allowed, verdict


def test_many_files_are_refused_rather_than_forgotten() -> None:
    command = "".join(f"echo ls > f{number};" for number in range(500)) + "echo 'kill 4321' > z; sh z"
    assert judge(command, Caller()).rule == "too-complex"
