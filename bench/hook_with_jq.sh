#!/bin/bash
# What the fast hook does for a plainly harmless tool call, as it is usually written: bash and jq.
# It records the event and lets only plain words of known programs pass.
set -eu
payload=$(cat)
tool=$(jq -r .tool_name <<<"$payload")
command=$(jq -r '.tool_input.command // ""' <<<"$payload")
line=$(jq -c . <<<"$payload")
printf '1\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$EPOCHREALTIME" "$SECONDS" "$DOGWATCH_INCARNATION" "$PPID" "$1" \
    "${#payload}" "$line" >>"$DOGWATCH_SPOOL"
[ "$tool" = Bash ] || exit 0
[[ $command =~ ^[A-Za-z0-9\ ./_=,:@%+-]+$ ]] || exit 2
case ${command%% *} in
    ls | cat | head | tail | wc | grep | pwd | echo | git) exit 0 ;;
    *) exit 2 ;;
esac
