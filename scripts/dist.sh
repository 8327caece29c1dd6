#!/usr/bin/env bash
# Usage: dist.sh PYTHON DIRECTORY. Builds the source distribution, builds the wheel from it, and checks both. PYTHON has the
# group "release" of pyproject.toml; npm makes the web page. The wheel comes from the source distribution to show that the source distribution is complete.
set -euo pipefail
cd "$(dirname "$0")/.."

python=$1
out=$2
rm -rf "$out"
"$python" -m build --no-isolation --outdir "$out" .
"$python" -m twine check --strict "$out"/*

# Without npm a wheel is built as well, but without the web page: that must not be published.
contents=$("$python" -m zipfile --list "$out"/*.whl)
for file in index.html console.js console.css report.js report.css LICENSES.txt; do
    if ! grep -q "groupd/coordinator/console/built/$file" <<<"$contents"; then
        echo "the wheel lacks a part of the web page or of the report: groupd/coordinator/console/built/$file is missing. Is npm installed?" >&2
        exit 1
    fi
done
