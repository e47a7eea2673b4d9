#!/bin/sh
# `tek bench matrix` where memory is short: the row memory. It judges no times, because the machine
# is emulated.
. "${0%/*}/tap.sh"

# Files in memory have no pages that the kernel could take back.
TMPDIR=/disk
export TMPDIR
chmod 1777 /disk

taken_back() { awk '/^pgscan_(kswapd|direct) / { sum += $2 } END { print sum }' /proc/vmstat; }

memory_is_short_while_each_column_is_measured() {
	before=$(taken_back)
	/tek/build/bin/tek bench matrix --quick --rounds 1 --rows memory \
		--columns alone,conventional,nice,chrt,tek,tekd --json /tmp/json >/tmp/report
	status=$?
	cat /tmp/report
	say "pages that the kernel looked at to take them back: $(($(taken_back) - before))"
	[ $status = 0 ] && ! grep '^empty' /tmp/report && [ "$(taken_back)" -gt "$before" ]
}

run_tests memory_is_short_while_each_column_is_measured
