/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Why a program that is to be executed runs without TEK's library. lib/exec and `tek run` judge
 * such programs, and report the reason. The libraries include this header. The build script of
 * crates/tek-abi makes its module `targets` of it.
 *
 * A list calls its parameter for each reason: identifier, name, the predicate of a sentence about
 * the program. tests/vectors/targets.txt uses the names. Lists of libraries, notes and files have
 * the name to search for. Their order is that of the search: the first match is reported.
 */
#ifndef TEK_TARGETS_H
#define TEK_TARGETS_H

/* clang-format off */

/* The loader ignores LD_PRELOAD. */
#define TEK_TARGETS_PASSED(target) \
	target(STATIC, "static", "is statically linked") \
	target(SET_USER_ID, "set-user-id", "is set-user-id") \
	target(SET_GROUP_ID, "set-group-id", "is set-group-id") \
	target(CAPABILITIES, "capabilities", "has file capabilities")

/* The library would break the program, or the loader would complain. */
#define TEK_TARGETS_DISTURBED(target) \
	target(WORD_SIZE, "word-size", "is of another word size") \
	target(PROCESSOR, "processor", "is for another processor") \
	target(LIBC, "libc", "is for another C library") \
	target(OLDER_LIBC, "older-libc", "has an older C library than TEK's library needs") \
	target(OUT_OF_REACH, "out-of-reach", "cannot open TEK's library from where it is " \
		"(another root or user)")

/* Beginnings of the names of libraries that must be the first. gcc's name, clang's name. */
#define TEK_TARGETS_FIRST_LIBRARIES(library) \
	library(ASAN, "libasan.so", "is built with AddressSanitizer") \
	library(CLANG_ASAN, "libclang_rt.asan", "is built with AddressSanitizer")

/*
 * The same for sanitizers that know kernel threads only. Most have an allocator of their own,
 * beside which another one crashes.
 */
#define TEK_TARGETS_SANITIZERS(library) \
	library(TSAN, "libtsan.", "is built with ThreadSanitizer") \
	library(LSAN, "liblsan.", "is built with LeakSanitizer") \
	library(HWASAN, "libhwasan.", "is built with HWAddressSanitizer") \
	library(CLANG, "libclang_rt.", "is built with a sanitizer")

/* Beginnings of the names of libraries that have the same functions as libtek-uthread.so. */
#define TEK_TARGETS_UTHREAD_LIBRARIES(library) \
	library(LIBTEK, "libtek.so", "is linked with libtek.so")

/* Owners of ELF notes: runtimes that switch stacks and thread-local storage by own signals. */
#define TEK_TARGETS_UTHREAD_NOTES(note) \
	note(GO, "Go", "is written in Go")

/* Files beside programs whose sandboxes require, and check, processes with one kernel thread. */
#define TEK_TARGETS_UTHREAD_FILES(file) \
	file(CHROMIUM, "chrome_crashpad_handler", "is Chromium") \
	file(FIREFOX, "libxul.so", "is Firefox")

/* clang-format on */

#endif
