# shellcheck shell=sh
# Sourced by tests that are shell scripts: runs functions as tests, and reports in TAP.

# say WORDS: prints words for the reader.
say() { echo "$*"; }

# run_tests FUNCTION...: runs each in a subshell; its output follows its result as comments.
run_tests() {
	echo "1..$#"
	number=0
	for test; do
		number=$((number + 1))
		if (set -u && "$test") >/tmp/output 2>&1; then
			echo "ok $number - $test"
		else
			echo "not ok $number - $test"
		fi
		sed 's/^/# /' /tmp/output
		# Mounts stay: the tested tree may be mounted in /tmp.
		rm -rf /dev/shm/* /tmp/* 2>/dev/null || true
	done
}
