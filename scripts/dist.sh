#!/usr/bin/env bash
# Usage: dist.sh PYTHON DIRECTORY. Builds the source distribution, builds the wheel from it, and checks both. PYTHON has build,
# setuptools and twine. The wheel comes from the source distribution to show that the source distribution is complete.
set -euo pipefail
cd "$(dirname "$0")/.."

python=$1
out=$2
rm -rf "$out" ./*.egg-info
"$python" -m build --no-isolation --outdir "$out" .
"$python" -m twine check --strict "$out"/*
