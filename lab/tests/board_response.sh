#!/bin/sh
# The appliance on the papers' board: how long it takes to answer an event beside many threads.
# What comes out is for people: an emulated CPU promises nothing.
tek=/tek/build/armhf/bin/tek
result=/tmp/response

$tek bench response --rounds 1 --events 5 --variants alone,conventional,tek-name \
	>$result || exit 1
cat $result
cp $result "${OUT:-/tmp}/response.txt"
tail -n 2 $result >"${OUT:-/tmp}/report"
