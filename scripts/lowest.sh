#!/usr/bin/env bash
# Usage: lowest.sh PYTHON [pytest's arguments]. Installs the wheel with the lowest versions of its dependencies
# (constraints-lowest.txt) into build/lowest/venv and runs tests of the harness, the stores and the commands there. They need
# neither the source tree nor the newest version of any library. PYTHON's environment has pip, uv and what builds the wheel.
set -euo pipefail
cd "$(dirname "$0")/.."

python=$(realpath --no-symlinks "$1")
shift
out=build/lowest
tests=(
    harness/test_plugin.py harness/test_process.py harness/test_with_confluent.py harness/test_with_aiokafka.py
    storage/test_sqlite.py storage/test_sqlite_loop.py storage/test_postgres_start.py
    unit/cli/test_health.py unit/cli/test_serve_flags.py unit/cli/test_serve.py unit/server/test_logs.py unit/tracing/test_tracing.py
)

rm -rf $out/wheel $out/tree
uv="$(dirname "$python")/uv pip"
"$python" -m pip wheel --quiet --no-deps --no-build-isolation --no-index --wheel-dir $out/wheel .
if ! cmp -s constraints-lowest.txt $out/installed.txt; then
    rm -rf $out/venv
    "$python" -m venv $out/venv
fi
# One call, so that uv sees all that has to fit together.
$uv install --quiet --python $out/venv/bin/python --constraint constraints-lowest.txt \
    --reinstall-package groupd "$(echo $out/wheel/*.whl)[postgres,otel]" \
    pytest pytest-asyncio pytest-timeout pytest-xdist anyio hypothesis confluent-kafka aiokafka
$uv check --quiet --python $out/venv/bin/python
cp constraints-lowest.txt $out/installed.txt

# Only the tests: what they import of groupd is what is installed. File by file: tar fails when a directory changes meanwhile, which it
# does when others compile the tests.
mkdir -p $out/tree
find tests/conftest.py tests/support tests/harness tests/storage tests/unit \
    \( -name target -o -name node_modules -o -name __pycache__ \) -prune -o -type f -print0 |
    tar -cf - --null -T - | tar -xf - -C $out/tree
cp tests/lowest.ini $out/tree/pytest.ini
cd $out/tree
exec ../venv/bin/python -m pytest -p no:cacheprovider -q "${tests[@]/#/tests/}" "$@"
