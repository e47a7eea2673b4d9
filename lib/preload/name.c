/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The two ways to name a thread; rules look at the name as soon as it is set.  One of them,
 * prctl(2), installs seccomp filters as well (sandbox.h).
 */
#include "base/export.h"
#include "base/real.h"
#include "life/start.h"
#include "mediate/rules.h"
#include "preload/sandbox.h"
#include "stack/stack.h"
#include "threads/process.h"
#include "threads/record.h"

#include <linux/seccomp.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/prctl.h>

static void named(pthread_t handle, const char *name)
{
	if (!tek__lock())
		return;
	struct tek_thread *thread = tek__thread_find(handle);
	if (thread) {
		const unsigned int generation = thread->generation;
		tek__thread_set_name(thread, name);
		tek__rules_apply(thread);
		if (thread->generation == generation)
			tek__stack_labelled(thread);
	}
	tek__unlock();
}

TEK_EXPORT int pthread_setname_np(pthread_t handle, const char *name)
{
	const bool started = tek__start();
	int error = tek__real.pthread_setname_np(handle, name);
	if (!error && started)
		named(handle, name);
	return error;
}

TEK_EXPORT int prctl(int option, ...)
{
	unsigned long arguments[4];
	va_list list;

	/* As the C library does: the kernel takes four words, used or not. */
	va_start(list, option);
	for (int i = 0; i < 4; i++)
		arguments[i] = va_arg(list, unsigned long);
	va_end(list);

	const bool started = tek__start();
	if (option == PR_SET_SECCOMP && started) {
		if (arguments[0] == SECCOMP_MODE_STRICT)
			tek__sandbox_comes(NULL);
		else if (arguments[0] == SECCOMP_MODE_FILTER && arguments[1])
			tek__sandbox_comes((const struct sock_fprog *)arguments[1]);
	}
	int result = tek__real.prctl(option, arguments[0], arguments[1], arguments[2],
				     arguments[3]);
	if (option == PR_SET_NAME && result == 0 && started)
		named(pthread_self(), (const char *)(uintptr_t)arguments[0]);
	return result;
}
