#!/bin/sh
# modes.sh PROCESSOR
# `tek run` in each of its modes, and tekd, on a device with another processor: a program has the
# library that the mode needs, and computes the same result as without TEK.
. "${0%/*}/tap.sh"

build=/tek/build/$1
tek=$build/bin/tek # its libraries are in $build/lib
appliance=$build/bench/response/appliance
sums="$build/bench/manycore/streamcluster --threads 3 --size 300" # mutexes, barriers, malloc()
meals="$build/bench/uthread/philosophers --threads 5 --size 2000" # mutexes and condition variables

# result PREFIX... PROGRAM: prints the program's result; fails if there is none.
result() {
	"$@" 2>/tmp/errors | grep -o '"\(checksum\|result\)":[^,}]*' ||
		{ cat /tmp/errors && false; }
}

# computes_the_same PREFIX...: both programs compute the same with the prefix as without.
computes_the_same() {
	for program in "$sums" "$meals"; do
		# shellcheck disable=SC2086  # a word each
		if ! without=$(result $program) || ! with=$(result "$@" $program) ||
			[ "$without" != "$with" ]; then
			say "$*: $with, without: $without"
			return 1
		fi
	done
}

# waiting PREFIX...: starts the appliance with the prefix; it waits until go() is called.
waiting() {
	mkfifo /tmp/go
	"$@" "$appliance" --events 2 --no-load --no-switch-cost --wait \
		</tmp/go >/tmp/out 2>/tmp/errors &
	exec 3>/tmp/go
	trap 'exec 3>&-' EXIT # the program ends when its standard input does
	until [ -s /tmp/out ]; do
		kill -0 $! || { cat /tmp/errors && return 1; }
		sleep 0.1
	done
	pid=$(pidof appliance)
}

go() {
	echo go >&3
	exec 3>&-
	wait $!
}

# has LIBRARY PREFIX...: the appliance, started with the prefix, has mapped the library.
has() {
	library=$1
	shift
	waiting "$@" || return
	grep -o "/[^ ]*/$library" "/proc/$pid/maps" || say "$*: no $library in the program"
	grep -q "/$library" "/proc/$pid/maps" && go
}

# scheduling NAME: prints the real-time priority and the policy of the appliance's thread NAME.
scheduling() {
	for task in "/proc/$pid/task"/*; do
		if [ "$(cat "$task/comm")" = "$1" ]; then
			sed 's/.*) //' "$task/stat" | cut -d ' ' -f 38,39
		fi
	done
}

doctor_and_ps_answer() {
	"$tek" doctor >/tmp/out
	[ $? -le 1 ] && grep -q uthread /tmp/out && cat /tmp/out &&
		"$tek" ps --kernel | grep kthreadd
}

a_program_runs_plain() { has libtek.so "$tek" run -- && computes_the_same "$tek" run --; }

threads_that_a_program_names_are_fast_and_are_reported() {
	waiting "$tek" run --critical 'ui*' --report -- || return
	fast=$(scheduling ui)
	say "ui: priority and policy $fast"
	go
	cat /tmp/errors
	[ "${fast% *}" -gt 0 ] && grep -q ' ui \[' /tmp/errors
}

# A user without privilege: the programs of root need no tekd.
tekd_grants_a_user_fast_threads_and_takes_them_back() {
	printf '[[grant]]\nusers = ["tester"]\n' >/tmp/tekd.toml
	"$build/bin/tekd" --config /tmp/tekd.toml 2>/tmp/log &
	daemon=$!
	until "$tek" status >/tmp/status 2>&1; do
		kill -0 $daemon || { cat /tmp/log && return 1; }
		sleep 0.2
	done
	waiting start-stop-daemon -S -c tester -x "$tek" -- run --critical 'ui*' --report --
	fast=$(scheduling ui)
	say "ui: priority and policy $fast"
	go
	cat /tmp/errors /tmp/log
	kill $daemon
	wait $daemon
	[ "${fast% *}" -gt 0 ] && grep -q ' ui \[' /tmp/errors
}

locks_are_replaced_by_each_kind() {
	has libtek-sync.so "$tek" run --lock k42 -- || return
	for kind in k42 park pi auto; do
		computes_the_same "$tek" run --lock $kind -- || return
	done
	computes_the_same "$tek" run --lock mcs --rwlock pf --barrier central --
}

malloc_is_replaced() {
	has libtek-alloc.so "$tek" run --alloc tlsf -- &&
		computes_the_same "$tek" run --alloc tlsf -- &&
		computes_the_same "$tek" run --alloc pool=32M --
}

mathematical_functions_are_replaced() {
	has libtek-libm-musl.so "$tek" run --libm musl -- &&
		computes_the_same "$tek" run --libm musl --
}

threads_are_spread_over_the_cpus() {
	computes_the_same "$tek" run --place spread -- &&
		computes_the_same "$tek" run --place compact --
}

threads_are_dealt_to_the_cpus_round_robin() {
	has libtek-rtfifo.so "$tek" run --place rtfifo -- &&
		computes_the_same "$tek" run --place rtfifo --
}

stacks_are_learnt_and_then_fitted() {
	for round in first second; do
		"$tek" run --stack auto --stack-profiles /tmp/profiles --report -- \
			"$appliance" --events 2 --no-load >/tmp/out 2>/tmp/$round || return
	done
	cat /tmp/first /tmp/second
	ls /tmp/profiles/*.stack && grep 'which saves' /tmp/first &&
		! grep 'which saves' /tmp/second && grep 'fits$' /tmp/second
}

time_is_profiled() {
	has libtek-profile.so "$tek" profile -- || return
	# shellcheck disable=SC2086  # a word each
	"$tek" profile -- $sums >/tmp/out 2>/tmp/errors
	status=$?
	cat /tmp/errors
	[ $status = 0 ] && grep 'CRITICAL PATH' /tmp/errors && grep '^mutex .* work' /tmp/errors
}

threads_are_user_level_ones() {
	if [ "${build##*/}" = armhf ]; then
		"$tek" run --model m:1 -- "$appliance" >/tmp/out 2>/tmp/errors && return 1
		cat /tmp/errors
		grep 'libtek-uthread.so is for x86-64 and aarch64' /tmp/errors
		return
	fi
	has libtek-uthread.so "$tek" run --model m:1 -- &&
		computes_the_same "$tek" run --model m:1 --quantum 1ms -- &&
		computes_the_same "$tek" run --model m:n --workers 2 --quantum 1ms -- &&
		computes_the_same "$tek" run --model m:n --workers 2 --preempt klt -- &&
		computes_the_same "$tek" run --model m:n --sched mlfq --lock park --alloc tlsf --
}

run_tests \
	doctor_and_ps_answer \
	a_program_runs_plain \
	threads_that_a_program_names_are_fast_and_are_reported \
	tekd_grants_a_user_fast_threads_and_takes_them_back \
	locks_are_replaced_by_each_kind \
	malloc_is_replaced \
	mathematical_functions_are_replaced \
	threads_are_spread_over_the_cpus \
	threads_are_dealt_to_the_cpus_round_robin \
	stacks_are_learnt_and_then_fitted \
	time_is_profiled \
	threads_are_user_level_ones
