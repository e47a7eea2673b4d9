/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * gettid() without a system call, and the two calls after which a thread's variables
 * may be another one's: clone() here, vfork() in preload/vfork/.  fork() and _Fork()
 * are noticed without being replaced (base/self.h).
 */
#include "base/export.h"
#include "base/real.h"
#include "base/sanitizer.h"
#include "life/replace.h"
#include "life/start.h"
#include "threads/process.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <tek/tek.h>

TEK_EXPORT pid_t gettid(void)
{
	return tek__gettid();
}

/* The function of a child that borrows its parent's variables. */
struct borrower {
	int (*run)(void *);
	void *argument;
};

static int begin_borrower(void *value)
{
	const struct borrower *borrower = value;
	tek__self_lend(false);
	return borrower->run(borrower->argument);
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
	const bool shares = flags & CLONE_VM && !(flags & CLONE_SETTLS);
	struct borrower borrower = {.run = run, .argument = argument};
	tek__gettid(); /* the child cannot learn it any more */
	if (shares)
		tek__exec_lends();
	if (shares && flags & CLONE_VFORK) {
		/* The caller waits, so this frame is there for the child. */
		run = begin_borrower;
		argument = &borrower;
	} else if (shares) {
		tek__self_lend(true);
	}
	return tek__real.clone(run, stack, flags, argument, parent_tid, tls, child_tid);
}

/*
 * Called by preload/vfork/. It makes the system call itself, so that the child marks the
 * variables as lent before anything else runs in it: until then they are the parent's, in a signal
 * handler too. Where a sanitizer has a vfork() of its own that one is used: it is returned, and
 * jumped to, because a frame of C would not survive the child.
 */
typedef pid_t vfork_function(void);
vfork_function *tek__vfork_begin(void);
void tek__vfork_in_child(void);
pid_t tek__vfork_failed(long result);

vfork_function *tek__vfork_begin(void)
{
	tek__start();
	tek__gettid(); /* the child cannot learn it any more */
	tek__exec_lends();
	if (!tek__sanitizer_is_loaded())
		return NULL;
	tek__self_lend(false);
	return tek__real.vfork;
}

void tek__vfork_in_child(void)
{
	tek__self_lend(false);
}

pid_t tek__vfork_failed(long result)
{
	errno = (int)-result;
	return -1;
}
