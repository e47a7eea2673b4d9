/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program that asks for a thread's stack is told of the room below it, too: stack/grow.h. */
#include "ident/process.h"
#include "ident/thread.h"
#include "preload/real.h"
#include "stack/config.h"
#include "stack/stack.h"

/* Without the lock for the calling thread: an allocator may ask, which has locks of its own. */
static void tell(pthread_t handle, pthread_attr_t *attr)
{
	const struct tek_thread *thread;

	if (pthread_equal(handle, pthread_self())) {
		thread = tek__process_is_known() ? tek__thread_known_self() : NULL;
		if (thread)
			tek__stack_tell(thread, attr);
	} else if (tek__lock()) {
		thread = tek__thread_known(handle);
		if (thread)
			tek__stack_tell(thread, attr);
		tek__unlock();
	}
}

/* ThreadSanitizer's runtime calls it in threads that it has not prepared yet, where TEK fits no stacks. */
TEK_EXPORT __attribute__((no_sanitize("thread"))) int pthread_getattr_np(pthread_t handle,
									 pthread_attr_t *attr)
{
	const bool started = tek__real.pthread_getattr_np || tek__start();
	int error = tek__real.pthread_getattr_np(handle, attr);

	if (!error && started && tek__stack_config.mode >= TEK_STACK_MODE_AUTO)
		tell(handle, attr);
	return error;
}
