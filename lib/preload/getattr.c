/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * pthread_getattr_np(3) reports a thread's stack, with the room below it (stack/grow.h), and its
 * CPUs: programs create threads with its result.
 */
#include "base/export.h"
#include "base/real.h"
#include "life/start.h"
#include "place/affinity.h"
#include "place/place.h"
#include "stack/config.h"
#include "stack/stack.h"
#include "threads/process.h"
#include "threads/thread.h"

/* Without the lock for the calling thread: an allocator may ask, which has locks of its own. */
static void fill_room(pthread_t handle, pthread_attr_t *attr)
{
	const struct tek_thread *thread;

	if (pthread_equal(handle, pthread_self())) {
		thread = tek__process_is_known() ? tek__thread_known_self() : NULL;
		if (thread)
			tek__stack_report(thread, attr);
	} else if (tek__lock()) {
		thread = tek__thread_known(handle);
		if (thread)
			tek__stack_report(thread, attr);
		tek__unlock();
	}
}

static void fill_cpus(pthread_t handle, pthread_attr_t *attr)
{
	struct tek_mask mask = {{0}};

	if (pthread_attr_getaffinity_np(attr, sizeof(mask), (cpu_set_t *)&mask))
		return;
	tek__affinity_report(tek__by_handle(handle), sizeof(mask), (cpu_set_t *)&mask);
	tek__real.pthread_attr_setaffinity_np(attr, sizeof(mask), (const cpu_set_t *)&mask);
}

/*
 * ThreadSanitizer's runtime calls it in threads that it has not prepared yet, where nothing may run
 * that was compiled for it.
 */
#ifdef __SANITIZE_THREAD__
#define IS_PREPARED(handle) (!pthread_equal(handle, pthread_self()))
#else
#define IS_PREPARED(handle) true
#endif

TEK_EXPORT __attribute__((no_sanitize("thread"))) int pthread_getattr_np(pthread_t handle,
									 pthread_attr_t *attr)
{
	const bool started = tek__real.pthread_getattr_np || tek__start();
	int error = tek__real.pthread_getattr_np(handle, attr);

	if (error || !started || !IS_PREPARED(handle))
		return error;
	if (tek__stack_config.mode >= TEK_STACK_MODE_AUTO)
		fill_room(handle, attr);
	if (tek__place_is_on())
		fill_cpus(handle, attr);
	return 0;
}
