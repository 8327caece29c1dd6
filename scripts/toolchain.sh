#!/usr/bin/env bash
# What the client tests need beside Python: a JDK (17 or newer), Maven, Go (1.26 or newer), Node (20.19 or
# newer) and npm. Root gets what is missing from Debian's packages; anybody else is told the one command.
# Go 1.21 or newer will do: it fetches the toolchain that tests/clients/go/go.mod names by itself.
set -euo pipefail

# at_least HAVE WANTED: versions like 20.19.4
at_least() {
    [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]
}

java_is_new_enough() {
    command -v javac >/dev/null && at_least "$(javac -version 2>&1 | sed -E 's/^javac ([0-9.]+).*/\1/')" 17
}

go_is_new_enough() {
    command -v go >/dev/null &&
        at_least "$(GOTOOLCHAIN=local go version | sed -E 's/^go version go([0-9.]+).*/\1/')" 1.21
}

node_is_new_enough() {
    command -v node >/dev/null && at_least "$(node --version | tr -d v)" 20.19
}

missing_packages() {
    java_is_new_enough || echo default-jdk-headless
    command -v mvn >/dev/null || echo maven
    go_is_new_enough || echo golang-go
    node_is_new_enough || echo nodejs
    command -v npm >/dev/null || echo npm
}

mapfile -t missing < <(missing_packages)
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
mapfile -t old < <(missing_packages)
if [ ${#old[@]} -ne 0 ]; then
    echo "This Debian's ${old[*]} are too old; see scripts/toolchain.sh for the versions." >&2
    exit 1
fi
