#!/bin/sh
# Experiments of `tek bench kthread` that need a disk of their own and interrupts in threads: the
# problem occurs, and the report names the kernel thread that waited. One round, so the margins are
# wide.
. "${0%/*}/tap.sh"

# measure PART VARIANTS: the report is in /tmp/report.
measure() {
	/tek/build/bin/tek bench kthread --parts "$1" --variants "$2" --rounds 1 --no-figures \
		--directory /disk >/tmp/report
	status=$?
	cat /tmp/report
	return $status
}

# longest VARIANT: its max in ms, from the table; a name may be of several words.
longest() { sed -n "s/^ $1  *//p" /tmp/report | awk 'NF > 6 { print $4; exit }'; }

# ratio VARIANT: its max by that of alone, likewise.
ratio() { sed -n "s/^ $1  *//p" /tmp/report | awk 'NF > 6 { print $6; exit }'; }

is_at_least() { awk "BEGIN { exit !(${1:-0} >= $2) }"; }

who_reads_from_the_disk_waits_long_while_real_time_tasks_starve_interrupt_threads() {
	# The real-time tasks run for 350 ms at a time.
	# Alone may be delayed by 100 ms in an emulated machine.
	measure irq alone,as-it-is && is_at_least "$(longest 'as it is')" 200 &&
		grep 'as it is: .*waited for a CPU: .*irq/' /tmp/report
}

who_reads_while_memory_is_short_waits_longer_while_kswapd_is_starved() {
	measure kswapd alone,as-it-is && is_at_least "$(ratio 'as it is')" 2 &&
		grep 'as it is: .*waited for a CPU: .*kswapd' /tmp/report
}

run_tests \
	who_reads_from_the_disk_waits_long_while_real_time_tasks_starve_interrupt_threads \
	who_reads_while_memory_is_short_waits_longer_while_kswapd_is_starved
