#!/usr/bin/env bash
# Usage: venv.sh DIRECTORY. Creates a virtual environment there with a Python >= 3.11. On a bare Debian python3 comes without
# ensurepip: for root this script installs python3-venv, for other users it prints the command that does.
set -euo pipefail

target=$1

is_new_enough() {
    command -v "$1" >/dev/null && "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))'
}

python=""
for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
    if is_new_enough "$candidate"; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "groupd needs Python 3.11 or newer: apt-get install python3 python3-venv" >&2
    exit 1
fi

if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    packages="python3-venv"
    [ "$version" = "$(/usr/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" ] ||
        packages="python$version-venv"
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$packages"
    else
        echo "Python's venv module is missing. Run: sudo apt-get install $packages" >&2
        exit 1
    fi
fi

"$python" -m venv "$target"
