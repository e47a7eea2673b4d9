#!/bin/sh
# A real-time task that writes and calls fdatasync beside ordinary programs that do the same, while
# hogs of lower priority leave 10% of the CPU: whatever it waits for has to follow it.
. "${0%/*}/tap.sh"

# measure FILE_SYSTEM: the report is in /tmp/report.
measure() {
	FILE_SYSTEMS=$1 OPERATIONS=beside-others OUT=/tmp sh "${0%/*}/file_systems.sh" >/tmp/report
	status=$?
	cat /tmp/report
	return $status
}

# column VARIANT NUMBER: of the table: 1 p50, 2 p90, 3 p99, 4 max, 5 late answers, 6 answers.
column() { sed -n "s/^ beside-others  *$1  *//p" /tmp/report | awk -v n="$2" '{ print $n; exit }'; }

is_at_least() { awk "BEGIN { exit !(${1:-0} >= $2) }"; }
is_at_most() { awk "BEGIN { exit !(${1:-1e9} <= $2) }"; }

# Without help each answer waits for the end of a hog's turn, 450 ms. With it a late one is one of
# emulation: a reaction of tekd takes some ms there.
answers_come_that_wait_for_the_work_of_starved_threads() {
	measure "$1" && is_at_least "$(column 'as it is' 1)" 200 &&
		is_at_most "$(column TEK 2)" 40 && is_at_most "$(column TEK 4)" 200 &&
		is_at_least "$(column TEK 6)" 100
}

on_ext4_answers_come_that_wait_for_the_work_of_starved_threads() {
	answers_come_that_wait_for_the_work_of_starved_threads ext4
}

run_tests on_ext4_answers_come_that_wait_for_the_work_of_starved_threads
