#!/bin/sh
# Figs. 11 and 12 of tek-2020 on a machine like the paper's: 32 bits, 3 GiB of addresses.
tek=/tek/build/armhf/bin/tek
result=/tmp/stack

$tek bench stack --figures --assert --json "${OUT:-/tmp}/stack.json" >$result
status=$?
cat $result
cp $result "${OUT:-/tmp}/stack.txt"
grep -E '^ (8 MiB|TEK,|TEK  )|of  ' $result >"${OUT:-/tmp}/report"
exit $status
