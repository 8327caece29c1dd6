#!/usr/bin/env bash
# A wheel and a source distribution in the new directory $2, by the Python $1, which has build, setuptools and twine; the wheel
# is made from the source distribution, so that whoever has only that can make it too.
set -euo pipefail
cd "$(dirname "$0")/.."

python=$1
out=$2
rm -rf "$out" ./*.egg-info
"$python" -m build --no-isolation --outdir "$out" .
"$python" -m twine check --strict "$out"/*
