#!/bin/sh
# The table of docs/file-operations.md: `tek bench kthread --parts files` on each file system.
# The disk is in the guest's memory, takes 0.3 ms for a request and has a cache that must be
# flushed.  The disk's time is the guest's own, unlike that of a disk of QEMU's.
#
# FILE_SYSTEMS, OPERATIONS (of the benchmark's, separated by commas) and ROUNDS narrow it down.
: "${FILE_SYSTEMS=ext4 xfs btrfs f2fs loop}" "${OPERATIONS=}" "${ROUNDS=1}" "${OUT=/tmp}"
: "${VARIANTS=alone,as-it-is,tek}"
bench=/tek/build/bin/tek

# An empty disk.
make_disk() {
	mount -t configfs configfs /sys/kernel/config 2>/dev/null
	disk=/sys/kernel/config/nullb/nullb1
	mkdir "$disk" || exit 1
	for setting in size=700 memory_backed=1 irqmode=2 completion_nsec=300000 submit_queues=2 \
		blocksize=4096 cache_size=16 power=1; do
		echo "${setting#*=}" >"$disk/${setting%%=*}" || exit 1
	done
}

remove_disk() {
	echo 0 >"$disk/power"
	rmdir "$disk"
}

# make_file_system NAME DEVICE
make_file_system() {
	case $1 in
	ext4) mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 "$2" ;;
	xfs) mkfs.xfs -q -f "$2" ;;
	btrfs) mkfs.btrfs -q -f "$2" ;;
	f2fs) mkfs.f2fs -q -f "$2" ;;
	esac && mkdir -p "/tmp/mnt/$1" && mount -t "$1" "$2" "/tmp/mnt/$1"
}

measure() {
	say="--parts files --variants $VARIANTS --rounds $ROUNDS"
	[ -z "$OPERATIONS" ] || say="$say --operations $OPERATIONS"
	# shellcheck disable=SC2086 # several words
	"$bench" bench kthread $say --directory "$2" --json "$OUT/$1.json"
}

mkdir -p /tmp/mnt
failed=0
for name in $FILE_SYSTEMS; do
	echo "$name:"
	make_disk
	device=/dev/nullb1
	if [ "$name" = loop ]; then
		make_file_system ext4 "$device" && truncate -s 400M /tmp/mnt/ext4/image &&
			losetup /dev/loop0 /tmp/mnt/ext4/image && mkfs.ext4 -q /dev/loop0 &&
			mkdir -p /tmp/mnt/loop && mount -t ext4 /dev/loop0 /tmp/mnt/loop
	else
		make_file_system "$name" "$device"
	fi && measure "$name" "/tmp/mnt/$name" || failed=1
	if [ "$name" = loop ]; then
		umount /tmp/mnt/loop
		losetup -d /dev/loop0
		umount /tmp/mnt/ext4
	else
		umount "/tmp/mnt/$name"
	fi
	remove_disk
done
exit $failed
