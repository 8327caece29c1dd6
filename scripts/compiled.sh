#!/usr/bin/env bash
# A compiled wheel in build/compiled/wheel, unpacked in build/compiled/tree, by the Python $1, which has setuptools and
# mypy. With `tests` as $2: beside it the tests, as they stand, so that they find the compiled modules.
set -euo pipefail
cd "$(dirname "$0")/.."

python=$1
out=build/compiled

if [ "${2:-}" = tests ]; then
    rm -rf $out/tree/tests $out/tree/docs
    tar -cf - --exclude=target --exclude=node_modules --exclude=__pycache__ \
        tests docs pyproject.toml README.md CHANGELOG.md | tar -xf - -C $out/tree
    exit 0
fi

# What a former build left would get into the wheel.
rm -rf $out build/lib* build/bdist*
GROUPD_COMPILE=1 "$python" -m pip wheel --quiet --no-deps --no-build-isolation --no-index --wheel-dir $out/wheel .
"$python" -m pip install --quiet --no-deps --no-index --target $out/tree $out/wheel/*.whl
