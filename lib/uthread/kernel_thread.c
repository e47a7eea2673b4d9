/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/kernel_thread.h"

#include "base/definition.h"
#include "uthread/reserved.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/*
 * Of a stack, beside the C library's data there. Not more: mlockall(2) counts it against
 * RLIMIT_MEMLOCK.
 */
#define STACK_BYTES ((size_t)32 << 10)
/* Where the size of that data is unknown, or a sanitizer needs more. */
#define AMPLE_STACK_BYTES ((size_t)256 << 10)

/* The interval, and the number, of polls whether a kernel thread has begun or ended. */
#define CHECK_AGAIN_NS 20000
#define CHECKS 20000

static atomic_uint beginning; /* number of those without a visible id so far */

static size_t stack_bytes(void)
{
#if defined(TEK_FIBERS_ASAN) || defined(TEK_FIBERS_TSAN)
	return AMPLE_STACK_BYTES;
#else
	/* Thread-local storage of the program lies there, too. */
	size_t (*least)(const pthread_attr_t *);
	void *found = tek__c_library_function("__pthread_get_minstack");

	memcpy(&least, &found, sizeof(least));
	return least ? STACK_BYTES + least(NULL) : AMPLE_STACK_BYTES;
#endif
}

int tek_ut__kernel_thread(void *(*routine)(void *), void *argument)
{
	int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	void *found = dlsym(RTLD_NEXT, "pthread_create");
	uint64_t all = tek_ut__blockable_signals(), before;
	pthread_attr_t attr;
	pthread_t handle;

	memcpy(&create, &found, sizeof(create));
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, stack_bytes());
	/* It sets its own mask: it begins with all signals blocked. */
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof(all));
	atomic_fetch_add(&beginning, 1);
	int error = create(&handle, &attr, routine, argument);
	if (error)
		atomic_fetch_sub(&beginning, 1);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before));
	pthread_attr_destroy(&attr);
	return error;
}

void tek_ut__kernel_thread_has_begun(void)
{
	atomic_fetch_sub(&beginning, 1);
}

static void pause_a_moment(void)
{
	const struct timespec moment = {.tv_nsec = CHECK_AGAIN_NS};

	syscall(SYS_nanosleep, &moment, NULL);
}

void tek_ut__kernel_threads_await_ids(void)
{
	for (int i = 0; i < CHECKS && atomic_load(&beginning); i++)
		pause_a_moment();
}

void tek_ut__kernel_thread_await_end(pid_t tid)
{
	for (int i = 0; tid && i < CHECKS && syscall(SYS_tgkill, getpid(), tid, 0) == 0; i++)
		pause_a_moment();
}

void tek_ut__kernel_threads_after_fork(void)
{
	atomic_store(&beginning, 0);
}
