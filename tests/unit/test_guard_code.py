"""Programs in other languages: what they run and whom they end is judged, what they only say is not."""

from __future__ import annotations

import pytest

from dogwatch.guard.judge import Caller, judge


def quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def allowed(runner: str, code: str) -> bool:
    return judge(f"{runner} {quote(code)}", Caller()).allowed


PYTHON_DENIED = [
    "import os; os.kill(4321, 9)",
    "import os\nfor p in (4321, 4322): os.kill(p, 15)",
    "import os\ndef end(pid): os.kill(pid, 9)\nend(4321)",
    "import os\nend = os.kill\nend(4321, 9)",
    "from os import kill\nkill(4321, 9)",
    "from os import *\nkill(4321, 9)",
    "import os; getattr(os, 'ki' + 'll')(4321, 9)",
    "import os; getattr(os, unknown)(4321, 9)",
    "import os; os.kill(os.getppid(), 9)",
    "import os; os.kill(int(open('pid').read()), 9)",
    "import os; os.killpg(4321, 9)",
    "import os; x = [os.kill]; x[0](4321, 9)",
    "import os; threads.append(Thread(target=os.kill, args=(4321, 9)))",
    "import psutil\nfor p in psutil.process_iter():\n    p.kill()",
    "import os; os.system('tmux kill-server')",
    "import os\nc = 'tmux '\nc += 'kill-server'\nos.system(c)",
    "import os; os.system('{} {}'.format('tmux', 'kill-server'))",
    "import os; os.system('%s kill-server' % 'tmux')",
    "import os; os.system(f\"{'tmux'} kill-server\")",
    "import os; os.system('revres-llik xumt'[::-1])",
    "import os; os.system(chr(116) + 'mux kill-server')",
    "import os; os.system(''.join(chr(c) for c in [116, 109, 117, 120]) + ' kill-server')",
    "import subprocess; subprocess.run(['tmux', 'kill-server'])",
    "import subprocess\ncmd = ['tmux']\ncmd.append('kill-server')\nsubprocess.run(cmd)",
    "import subprocess\ncmd = ['tmux']\ncmd += ['kill-server']\nsubprocess.run(cmd)",
    "import subprocess; subprocess.run('tmux kill-server', shell=True)",
    "import subprocess; subprocess.run(['bash', '-c', 'tmux kill-server'])",
    "import subprocess; subprocess.run(['sh'], input='tmux kill-server')",
    "import subprocess as s; s.Popen(args=['pkill', 'node'])",
    "import subprocess\nfor c in (['ls'], ['pkill', 'x']):\n    subprocess.run(c)",
    "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import os; os.kill(4321, 9)'])",
    "import os; os.execvp('tmux', ['tmux', 'kill-server'])",
    "import asyncio; asyncio.run(asyncio.create_subprocess_exec('tmux', 'kill-server'))",
    "exec('import os; os.kill(4321, 9)')",
    "__import__('os').kill(4321, 9)",
    "import ctypes; ctypes.CDLL(None).kill(4321, 9)",
    "import shutil; shutil.rmtree('/tmp/tmux-1000')",
    "import os; os.remove(os.environ['DOGWATCH_HOME'] + '/ledger.db')",
    "open('/proc/sysrq-trigger', 'w').write('b')",
    "import os\nprint 'python 2'\nos.kill(4321, 9)",
]
PYTHON_ALLOWED = [
    "print('tmux kill-server')",
    "text = 'os.kill(1, 9)'\nprint(len(text))",
    "import os; print(os.getpid(), os.kill.__name__)",
    "import os; os.kill(4321, 0)",
    "import os; os.kill(os.getpid(), 15)",
    "import os\npid = os.fork()\nif pid: os.kill(pid, 9)",
    "import subprocess\np = subprocess.Popen(['npm', 'start'])\np.terminate()\np.kill()\np.send_signal(2)",
    "import os, subprocess\np = subprocess.Popen(['x'])\nos.killpg(os.getpgid(p.pid), 15)",
    "import psutil; print(psutil.virtual_memory())",
    "import psutil, os\nfor c in psutil.Process(os.getpid()).children():\n    c.kill()",
    "import subprocess; subprocess.run(['git', 'commit', '-m', 'kill-server'])",
    "import subprocess\ndef run(c):\n    return subprocess.run(c, shell=True)\nrun('ls')\nrun('git log | head')",
    "import subprocess; subprocess.run(f'git log {branch}', shell=True)",
    "import os; os.system('ls ' + folder)",
    "exec(open('setup.py').read())",
    "exec('print(1)')",
    "import re; re.sub('kill', 'stop', open('f').read())",
    "import json; json.dump({'kill': 1}, open('x.json', 'w'))",
    "import signal; signal.signal(signal.SIGTERM, lambda *a: None)",
    "print 'python 2'",
    "import inspect, os; print(inspect.getsource(os.system))",
    "s.connect(('localhost', 80))",
    "  import os\n  print(os.sep)",
]


@pytest.mark.parametrize("code", PYTHON_DENIED)
def test_python_that_ends_others_is_denied(code: str) -> None:
    assert not allowed("python3 -c", code)
    assert not judge(f"python3 - <<'EndOfCode'\n{code}\nEndOfCode\n", Caller()).allowed
    assert not judge("./x.py", Caller(files={"x.py": f"#!/usr/bin/env python3\n{code}\n"})).allowed


@pytest.mark.parametrize("code", ["import os; os.system(command)", "eval(input())"])
def test_what_a_program_puts_together_is_denied_in_a_command_only(code: str) -> None:
    assert not allowed("python3 -c", code)
    assert judge("python3 x.py", Caller(files={"x.py": code})).allowed


@pytest.mark.parametrize("code", PYTHON_ALLOWED)
def test_python_that_ends_nobody_or_its_own_is_allowed(code: str) -> None:
    verdict = judge(f"python3 -c {quote(code)}", Caller())
    assert verdict.allowed, verdict


OTHERS: list[tuple[str, str, str]] = [
    ("perl -e", "kill 9, 4321", "kill 0, 4321"),
    ("perl -e", "foreach (@ARGV) { kill 9, $_ }", "foreach (@ARGV) { print }"),
    ("perl -e", 'system("tmux kill-server")', 'print "system(tmux kill-server)"'),
    ("perl -e", 'system("tmux", "kill-server")', 'system("git", "status")'),
    ("perl -e", "print `pkill x`", "print `ls`"),
    ("perl -e", "print qx(pkill x)", "print q(pkill x)"),
    ("perl -e", 'open(F, "tmux kill-server |")', 'open(F, "<", "kill.txt")'),
    ("perl -pe", "s/x/`pkill y`/e", "s/kill/`x`/"),
    ("perl -ne", 'eval "kill 9, 4321"', "eval { die }"),
    ("perl -e", 'my $c = "pkill x"; system $c', 'my $c = "ls"; system $c'),
    ("perl -e", "system($command)", 'system("ls $folder")'),
    ("ruby -e", "Process.kill(9, 4321)", "Process.kill(0, 4321)"),
    ("ruby -e", "Process.kill :TERM, pid", "pid = fork { sleep }; Process.kill :TERM, pid"),
    ("ruby -e", 'system "tmux kill-server"', 'puts "tmux kill-server"'),
    ("ruby -e", "%x(pkill x)", "%q(pkill x)"),
    ("ruby -e", 'IO.popen(["pkill", "x"])', 'IO.popen(["ls", "x"])'),
    ("ruby -e", "send(:system, 'pkill x')", "socket.send('x', 0)"),
    ("node -e", "process.kill(4321)", "process.kill(4321, 0)"),
    ("node -e", "process.kill(pid)", "process.kill(process.pid, 'SIGTERM')"),
    ("node -e", "process['ki' + 'll'](4321)", "process['ver' + 'sion']"),
    ("node -e", "process[name](4321)", "process.argv[2]"),
    ("node -e", "const {kill} = process; kill(4321)", "const {exit} = process; exit(0)"),
    ("node -e", "require('child_process').exec('pkill x')", "require('child_process').exec('ls')"),
    ("node -e", "require('child_process').spawn('pkill', ['x'])", "require('child_process').spawn('ls', ['x'])"),
    ("node -e", "const c = require('child_process'); c.execSync(x)", "const r = /x/; r.exec(x)"),
    ("node -e", "import {exec as e} from 'child_process'; e('pkill x')", "import {exec as e} from './x'; e('pkill x')"),
    ("node -e", "eval('process.kill(4321)')", "eval('1 + 1')"),
    ("node -e", "new Function(code)()", "new Function('return 1')()"),
    ("node -e", "require(name).exec('x')", "require('fs').readFileSync(name)"),
    ("node -e", "require('fs').rmSync('/tmp/tmux-1000')", "require('fs').rmSync('/tmp/mine')"),
    ("node -e", "`${require('child_process').execSync('pkill x')}`", "`${'pkill x'}`"),
    ("php -r", "posix_kill(4321, 9);", "posix_kill(4321, 0);"),
    ("php -r", 'shell_exec("pkill x");', 'echo "pkill x";'),
    ("php -r", '$f = "system"; $f("pkill x");', '$f = "strlen"; $f("pkill x");'),
    ("lua -e", 'os.execute("pkill x")', 'print("pkill x")'),
    ("awk", 'BEGIN { system("pkill x") }', 'BEGIN { print "pkill x" }'),
    ("awk", '{ print $1 | "sh" }', '{ print $1 | "sort" }'),
    ("awk", 'BEGIN { "pkill x" | getline y }', 'BEGIN { "date" | getline y }'),
    ("awk", '/kill/ { system("kill " $2) }', "/system/ { n++ }"),
    ("sed", "1e pkill x", "1a pkill x"),
    ("sed", "s/a/b/e", "s/e/b/g"),
    ("expect -c", "spawn pkill x", "spawn ls"),
    ("osascript -e", 'do shell script "pkill x"', 'display dialog "pkill x"'),
    ("Rscript -e", 'system("pkill x")', 'print("pkill x")'),
    ("emacs --eval", '(shell-command "pkill x")', '(message "pkill x")'),
    ("vim -c", "!pkill x", "%s/pkill/x/"),
    ("psql -c", "\\! pkill x", "select 'pkill x'"),
    ("deno eval", "Deno.kill(4321)", "console.log(4321)"),
]


@pytest.mark.parametrize(("runner", "denied", "fine"), OTHERS)
def test_other_languages_both_ways(runner: str, denied: str, fine: str) -> None:
    assert not allowed(runner, denied)
    verdict = judge(f"{runner} {quote(fine)}", Caller())
    assert verdict.allowed, verdict


def test_code_that_is_written_and_compiled_is_judged_when_it_runs() -> None:
    source = "cat > k.c <<'E'\n#include <signal.h>\nint main(void) {{ {0}; }}\nE\ngcc -o k k.c"
    assert judge(source.format("kill(4321, 9)"), Caller()).allowed
    assert not judge(source.format("kill(4321, 9)") + " && ./k", Caller()).allowed
    assert not judge(source.format('system("tmux kill-server")') + " && ./k", Caller()).allowed
    assert judge(source.format('puts("tmux kill-server")') + " && ./k", Caller()).allowed
