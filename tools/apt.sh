# shellcheck shell=bash
# Sourced by tools/setup: how packages get onto a Debian system.

installed() {
	[ "$(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# one_installed NAME...: whether one of these packages is installed.
one_installed() {
	local name
	for name; do
		! installed "$name" || return 0
	done
	return 1
}

# The version of a package that apt would install; empty where there is none.
candidate() {
	# "Candidate" is a translated word.
	LC_ALL=C apt-cache policy "$1" 2>/dev/null |
		awk '$1 == "Candidate:" && $2 != "(none)" { print $2 }'
}

# available NAME VERSION: whether apt can install that version of the package or a later one.
available() {
	local found
	found=$(candidate "$1")
	[ -n "$found" ] && dpkg --compare-versions "$found" ge "$2"
}

# first_available NAME...: prints the first of them that apt can install.
first_available() {
	local name
	for name; do
		if [ -n "$(candidate "$name")" ]; then
			echo "$name"
			return
		fi
	done
}

as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif [ -t 0 ]; then
		sudo "$@"
	else
		sudo -n "$@"
	fi
}

# Package scripts start the services that they install unless this file forbids it.
# A file that another program made stays as it is.
policy=/usr/sbin/policy-rc.d
mark='made by tools/setup of TEK for the time of one installation'

forbid_services() {
	if [ -e $policy ] && ! grep -q "$mark" $policy; then
		return
	fi
	trap allow_services EXIT
	printf '#!/bin/sh\n# %s\nexit 101\n' "$mark" | as_root tee $policy >/dev/null &&
		as_root chmod 755 $policy
}

allow_services() { as_root rm -f $policy; }

# disable_services PACKAGE...: keeps their services from starting at the next boot.
disable_services() {
	local unit
	if [ $# = 0 ] || ! command -v systemctl >/dev/null; then
		return
	fi
	dpkg --listfiles "$@" | sed -n 's|.*/lib/systemd/system/\([^@/]*\.service\)$|\1|p' |
		while read -r unit; do
			as_root systemctl disable "$unit" </dev/null || true
		done
}

apt() {
	# Another installation may hold dpkg's lock: wait until it ends.
	as_root env DEBIAN_FRONTEND=noninteractive \
		apt-get --quiet --yes -o DPkg::Lock::Timeout=600 "$@"
}

simulate() { apt-get --simulate --no-install-recommends --no-remove install "$@"; }

# install_packages NAME...: all of them or none; fails if one cannot be installed.
install_packages() {
	local plan new
	plan=$(simulate "$@") || return 1
	# `Inst NAME (VERSION` is a new package; `Inst NAME [OLD] (VERSION` an upgrade.
	new=$(awk '$1 == "Inst" && $3 ~ /^\(/ { print $2 }' <<<"$plan")
	exec 8<"${policy%/*}"
	flock 8 # the first of two that install would allow services to the second
	forbid_services || return 1
	apt --no-install-recommends --no-remove install "$@" 8<&- || return 1
	# shellcheck disable=SC2086  # one word a package
	disable_services $new
}

# install_each NAME...: each by itself, so that one failure does not prevent the rest.
install_each() {
	local name
	for name; do
		install_packages "$name" || true
	done
}
