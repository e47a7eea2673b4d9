/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * gettid() without a system call, and the two calls after which a thread's variables
 * may be another one's: clone() here, vfork() in arch/CPU/vfork.S.  fork() and _Fork()
 * are noticed without being replaced (ident/self.h).
 */
#include "ident/process.h"
#include "preload/real.h"

#include <sched.h>
#include <stdarg.h>
#include <tek/tek.h>

TEK_EXPORT pid_t gettid(void)
{
	return tek__gettid();
}

TEK_EXPORT int clone(int (*run)(void *), void *stack, int flags, void *argument, ...)
{
	va_list list;
	pid_t *parent_tid, *child_tid;
	void *tls;

	/* As the C library does: the kernel takes them, used or not. */
	va_start(list, argument);
	parent_tid = va_arg(list, pid_t *);
	tls = va_arg(list, void *);
	child_tid = va_arg(list, pid_t *);
	va_end(list);

	tek__start();
	if (flags & CLONE_VM && !(flags & CLONE_SETTLS))
		tek__self_lend(!(flags & CLONE_VFORK));
	return tek__real.clone(run, stack, flags, argument, parent_tid, tls, child_tid);
}

/*
 * What arch/CPU/vfork.S calls, to jump to what it returns: two processes come back from
 * vfork(), and the first of them would destroy a frame of C that the second one needs.
 */
typedef pid_t vfork_function(void);
vfork_function *tek__vfork_begin(void);

vfork_function *tek__vfork_begin(void)
{
	tek__start();
	tek__self_lend(false);
	return tek__real.vfork;
}
