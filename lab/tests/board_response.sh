#!/bin/sh
# The appliance on the papers' board: its response time to an event beside many threads.
# The results are for readers, not judged: an emulated CPU has no guaranteed speed.
tek=/tek/build/armhf/bin/tek
result=/tmp/response

$tek bench response --rounds 1 --events 5 --variants alone,conventional,tek-name \
	>$result || exit 1
cat $result
cp $result "${OUT:-/tmp}/response.txt"
tail -n 2 $result >"${OUT:-/tmp}/report"
