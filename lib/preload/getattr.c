/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program that asks for a thread's stack is told of the room below it, too: stack/grow.h. */
#include "ident/process.h"
#include "ident/thread.h"
#include "preload/real.h"
#include "stack/config.h"
#include "stack/stack.h"

TEK_EXPORT int pthread_getattr_np(pthread_t handle, pthread_attr_t *attr)
{
	const bool started = tek__start();
	int error = tek__real.pthread_getattr_np(handle, attr);

	if (error || !started || tek__stack_config.mode < TEK_STACK_MODE_AUTO)
		return error;
	if (pthread_equal(handle, pthread_self())) {
		/* Without the lock: an allocator may ask, which has locks of its own. */
		const struct tek_thread *self = tek__process_is_known() ? tek__thread_known_self()
									: NULL;
		if (self)
			tek__stack_tell(self, attr);
	} else if (tek__lock()) {
		const struct tek_thread *thread = tek__thread_known(handle);
		if (thread)
			tek__stack_tell(thread, attr);
		tek__unlock();
	}
	return 0;
}
