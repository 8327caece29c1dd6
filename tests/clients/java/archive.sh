#!/usr/bin/env bash
# Makes target/driver.jar of the compiled classes, and target/driver.jsa: what Java knows of the classes of a consumer once it has
# loaded them. A driver that begins with this takes half the processor time until it has partitions. The consumer that runs here
# finds no broker; while it looks for one it loads most of what consumers load.
set -euo pipefail
export LC_ALL=C
cd -P "$(dirname "$0")/target"

jar --create --file driver.jar -C classes .
# The class path of tests/support/toolchain.py: with another one Java does not use the archive.
class_path=$(printf '%s:' "$PWD/driver.jar" "$PWD"/lib/*.jar)
rm -f driver.jsa
sleep 3 | java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit=driver.jsa -Xlog:disable -Xlog:all=error:stderr \
    -Dorg.slf4j.simpleLogger.defaultLogLevel=off -cp "${class_path%:}" groupd.clients.Main consume --bootstrap 127.0.0.1:1 \
    --group g --topics t --protocol consumer --assignor uniform --members 1 --first 0 --commit each --instance-prefix "" \
    --session-timeout-ms 6000 >/dev/null
test -s driver.jsa
