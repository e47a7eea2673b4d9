# shellcheck shell=sh
# Sourced by the tests that are shell scripts: functions as tests, told as tools/checks/tap.py reads.

# say WORDS: for people.
say() { echo "$*"; }

# run_tests FUNCTION...: each in a shell of its own; what it prints is shown if it fails.
run_tests() {
	echo "1..$#"
	number=0
	for test; do
		number=$((number + 1))
		if (set -u && "$test") >/tmp/said 2>&1; then
			echo "ok $number - $test"
		else
			echo "not ok $number - $test"
		fi
		sed 's/^/# /' /tmp/said
		# But for what is mounted there: the tree that is tested may lie in /tmp.
		rm -rf /dev/shm/* /tmp/* 2>/dev/null || true
	done
}
