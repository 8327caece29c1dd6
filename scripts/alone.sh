#!/usr/bin/env bash
# Usage: alone.sh NAME COMMAND... Runs the command while no other one runs under the same NAME: `make --jobs` would run several at a
# time, which neither apt nor Maven's local repository is made for. Without flock it runs at once: do not use --jobs there.
set -euo pipefail

name=$1
shift
command -v flock >/dev/null || exec "$@"
exec flock "${TMPDIR:-/tmp}/groupd-$name-$(id -u).lock" "$@"
