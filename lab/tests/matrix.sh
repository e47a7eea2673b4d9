#!/bin/sh
# `tek bench matrix` where cgroup v2 and PREEMPT_RT are: a few rows, in each column that needs no
# other program. It judges no times, because the machine is emulated.
. "${0%/*}/tap.sh"

report=${OUT:-/tmp}/report

# The weights need the controller, which systemd would enable.
echo +cpu >/sys/fs/cgroup/cgroup.subtree_control || exit 1

each_column_of_the_matrix_is_measured() {
	/tek/build/bin/tek bench matrix --quick --rounds 1 \
		--rows hogs,mutex,rust-mutex,pipe,user-hogs \
		--columns alone,conventional,nice,chrt,weights,tek,tek-no-inherit,tekd,tekd-fair \
		>"$report"
	status=$?
	cat "$report"
	[ $status = 0 ] && ! grep '^empty' "$report"
}

no_group_of_the_benchmark_stays() {
	! find /sys/fs/cgroup -name 'tek-bench-*' | grep .
}

run_tests \
	each_column_of_the_matrix_is_measured \
	no_group_of_the_benchmark_stays
