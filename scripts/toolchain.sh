#!/usr/bin/env bash
# What the tests need beside Python: a JDK (17 or newer), Maven, Go (1.26 or newer), Node (20.19 or newer), npm,
# PostgreSQL (13 or newer) and Prometheus, of which the tests start servers of their own, Chromium with its driver, and a C compiler.
# With an argument (postgresql, java, chromium or prometheus): only that. For root this script installs what is missing from Debian's
# packages; for other users it prints the command that does.
# Go 1.21 or newer will do: it fetches the toolchain that tests/clients/go/go.mod names by itself.
set -euo pipefail

only=${1:-}

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

# Debian keeps the server's programs off PATH.
postgres_is_new_enough() {
    local found
    found=$(command -v postgres || find /usr/lib/postgresql -path '*/bin/postgres' 2>/dev/null | sort -V | tail -n 1)
    [ -n "$found" ] && [ -x "$(dirname "$(readlink -f "$found")")/initdb" ] &&
        at_least "$("$found" --version | sed -E 's/^postgres \(PostgreSQL\) ([0-9.]+).*/\1/')" 13
}

# Debian's packages would make a database cluster and start services, now and when the machine boots. Nobody needs these.
without_services() {
    local settings=/etc/postgresql-common/createcluster.d/groupd-tests.conf policy=/usr/sbin/policy-rc.d own=
    mkdir -p "$(dirname "$settings")"
    echo "create_main_cluster = false" >"$settings"
    if [ ! -e "$policy" ]; then
        own=$policy
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod 755 "$policy"
    fi
    local result=0
    "$@" || result=$?
    rm -f "$settings" ${own:+"$own"}
    return "$result"
}

# Only where this script has installed it.
not_at_boot() {
    if [[ " ${missing[*]} " == *" $1 "* ]] && command -v systemctl >/dev/null; then
        systemctl disable --quiet "$1"
    fi
}

missing_packages() {
    case "$only" in
        "" | postgresql) postgres_is_new_enough || echo postgresql ;;
    esac
    case "$only" in
        "" | java) java_is_new_enough || echo default-jdk-headless ;;
    esac
    case "$only" in
        "" | chromium)
            command -v chromium >/dev/null || echo chromium
            command -v chromedriver >/dev/null || echo chromium-driver
            ;;
    esac
    case "$only" in
        "" | prometheus)
            # One package has both programs.
            { command -v prometheus && command -v promtool; } >/dev/null || echo prometheus
            ;;
    esac
    [ -z "$only" ] || return 0
    command -v mvn >/dev/null || echo maven
    go_is_new_enough || echo golang-go
    node_is_new_enough || echo nodejs
    command -v npm >/dev/null || echo npm
    command -v cc >/dev/null || printf '%s\n' gcc libc6-dev
    [ -e /usr/include/openssl/ssl.h ] || echo libssl-dev
}

mapfile -t missing < <(missing_packages)
if [ ${#missing[@]} -eq 0 ]; then
    exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive without_services apt-get install -y -qq --no-install-recommends "${missing[@]}"
    not_at_boot prometheus
else
    echo "The tests need ${missing[*]}. Run: sudo apt-get install ${missing[*]}" >&2
    exit 1
fi
mapfile -t old < <(missing_packages)
if [ ${#old[@]} -ne 0 ]; then
    echo "This Debian's ${old[*]} are too old; see scripts/toolchain.sh for the versions." >&2
    exit 1
fi
