#!/bin/sh
# TEK where memory is short: all but a little of it is taken before each test.
. "${0%/*}/tap.sh"

appliance=/tek/build/bench/response/appliance

available_mb() { awk '/^MemAvailable/ { print int($2 / 1024) }' /proc/meminfo; }

# A file system in memory takes at most half of the memory, which is less than the test must take.
mount -o remount,size=100% /dev/shm || exit 1

# leave MB: takes all memory but that many megabytes.
leave() {
	dd if=/dev/zero of=/dev/shm/taken bs=1M count=$(($(available_mb) - $1)) 2>/dev/null ||
		exit 1
	say "$(available_mb) MB are left"
}

a_critical_thread_runs_and_is_reported_in_the_last_24_MB() {
	leave 24
	tek run --critical 'ui*' --report $appliance --events 3 --no-load >/tmp/out 2>/tmp/report &&
		grep ui /tmp/report
}

doctor_and_ps_answer_in_the_last_16_MB() {
	leave 16
	tek doctor >/tmp/out && tek ps --kernel >/tmp/out && grep kthreadd /tmp/out
}

stacks_are_measured_and_fitted_in_the_last_24_MB() {
	leave 24
	tek run --stack auto --stack-profiles /tmp/profiles --report \
		$appliance --events 3 --no-load >/tmp/out 2>/tmp/report
	status=$?
	cat /tmp/report
	[ $status = 0 ] && grep 'which saves' /tmp/report && ls /tmp/profiles/*.stack
}

# Doubles to 8 MB, then takes 8 MB at a time. The inner shell expands it.
# shellcheck disable=SC2016
filler='piece=0123456789abcdef
while [ ${#piece} -lt 8388608 ]; do piece=$piece$piece; done
while :; do all=$all$piece; done'

a_program_that_takes_all_memory_is_killed_and_tek_ends_as_it_did() {
	tek run --critical ui --report /bin/sh -c "$filler" >/tmp/out 2>/tmp/report
	status=$?
	cat /tmp/report
	[ $status = 137 ] && [ -z "$(ls -d /run/tek*/*)" ] && tek doctor >/tmp/out
}

run_tests \
	a_critical_thread_runs_and_is_reported_in_the_last_24_MB \
	doctor_and_ps_answer_in_the_last_16_MB \
	stacks_are_measured_and_fitted_in_the_last_24_MB \
	a_program_that_takes_all_memory_is_killed_and_tek_ends_as_it_did
