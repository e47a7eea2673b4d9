## make build            build everything into build/
## make demo             build what it needs, then show the gain on this machine (under 5 minutes)
## make check            build, then run every test and style check
## make check-lab        build, then run the tests that boot machines of their own (docs/lab.md)
## make check-lab-smoke  build, then run a few of these for each kind of kernel (5 minutes)
## make check-nightly    fuzz for long, run real programs; demo and check in clean Debian 12 and 13
##                       (hours; root)
## make check-posix      build, then run the Open POSIX Test Suite on user-level threads and other
##                       locks (20 minutes; as root it sets the clock)
## make install          install what was built (PREFIX=/usr/local, DESTDIR=)
## make uninstall        remove what the last `make install` from this tree installed
## make format           lay out C, C++ and Rust sources as the project does
## make clean            remove build/
## make help             show this list
#
# A list of commands; their logic is in tools/.

PREFIX ?= /usr/local
DESTDIR ?=
export PREFIX DESTDIR

.PHONY: build demo check check-lab check-lab-smoke check-nightly check-posix install uninstall \
	format clean help

build:
	@tools/build

demo:
	@tools/demo

check:
	@tools/check

check-lab:
	@tools/check --lab

check-lab-smoke:
	@tools/check --lab --smoke

check-nightly:
	@tools/nightly

check-posix: build
	@tools/posix-suite
	@tools/posix-suite --lock park,rwlock=park,barrier=block --lock k42,rwlock=pf,barrier=central \
		--lock auto,rwlock=park,barrier=auto

install:
	@tools/install

uninstall:
	@tools/uninstall

format:
	@tools/format

clean:
	rm -rf build

help:
	@sed -n 's/^## //p' Makefile
