/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Whether a thread can have thread-local storage of its own here: a trial. */
#include "uthread/tls.h"
#include "uthread/tls_glibc.h"
#include "uthread/tls_libraries.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)

#include <asm/prctl.h>

bool tek_ut__tls_by_system_call;

__attribute__((noinline)) void tek_ut__tls_switch_by_system_call(uintptr_t pointer)
{
	long result;

	/* Not by syscall(): that may write errno, which belongs to no known storage here. */
	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(SYS_arch_prctl), "D"((long)ARCH_SET_FS), "S"(pointer)
			 : "rcx", "r11", "memory");
	if (result != 0)
		__builtin_trap();
}

static void find_way_to_switch(void)
{
	enum { FSGSBASE = 1 << 1 }; /* of AT_HWCAP2: the instruction may be used */

	tek_ut__tls_by_system_call = !(getauxval(AT_HWCAP2) & FSGSBASE);
}

#else

static void find_way_to_switch(void) {}

#endif

#if defined(__x86_64__) || defined(__aarch64__)

enum { FIRST = 1234567, CHANGED = 7654321 };

static __thread volatile int variable __attribute__((tls_model("initial-exec"))) = FIRST;

/* In unused storage. Not inlined, so no address is known from before. */
static __attribute__((noinline)) bool works_in(uintptr_t pointer)
{
	if ((char *)&errno != (char *)pointer + tek_ut__glibc.error || errno != 0 ||
	    variable != FIRST)
		return false;
	variable = CHANGED;
	tek_ut__tls_begin_current();
	if (close(-1) != -1 || errno != EBADF || !isdigit('7'))
		return false;
	/* One too large for the allocator's caches of small blocks; and a small one. */
	for (size_t bytes = 16; bytes <= 1 << 16; bytes <<= 12) {
		char *volatile memory = malloc(bytes);
		if (!memory)
			return false;
		memory[bytes - 1] = 1;
		free(memory);
	}
	return true;
}

static bool try_it(void)
{
	struct tek_uthread thread = {.stack_low = NULL};
	const uintptr_t mine = tek_ut__tls_pointer();
	const uint64_t all = ~(uint64_t)0;
	uint64_t before;

	if (tek_ut__tls_give(&thread))
		return false;
	errno = EXDEV;
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof(all));
	tek_ut__tls_switch(thread.tls);
	bool works = works_in(thread.tls);
	tek_ut__tls_switch(mine);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before));
	/*
	 * This storage is never used again: the allocator may have a list of all storage with data
	 * of its own, as jemalloc does.
	 */
	return works && errno == EXDEV && variable == FIRST;
}

#else

static bool try_it(void)
{
	return false;
}

#endif

bool tek_ut__tls_available(void)
{
	static enum { UNKNOWN, NO, YES } known;
	const int saved = errno;

	if (known == UNKNOWN) {
		find_way_to_switch();
		bool works = tek_ut__glibc_find() && tek_ut__tls_libraries_start() && try_it();
		known = works ? YES : NO;
		errno = saved;
	}
	return known == YES;
}
