#!/usr/bin/env bash
# What the client tests need beside Python: a JDK (17 or newer) and Maven. Root gets what is missing from
# Debian's packages; anybody else is told the one command.
set -euo pipefail

java_is_new_enough() {
    command -v javac >/dev/null &&
        [ "$(javac -version 2>&1 | sed -E 's/^javac ([0-9]+).*/\1/')" -ge 17 ]
}

missing=()
java_is_new_enough || missing+=(default-jdk-headless)
command -v mvn >/dev/null || missing+=(maven)
if [ ${#missing[@]} -eq 0 ]; then
    exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
else
    echo "The client tests need ${missing[*]}. Run: sudo apt-get install ${missing[*]}" >&2
    exit 1
fi
