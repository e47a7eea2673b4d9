/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The functions of tek/tek.h for user-level threads. The settings of the engine mean the same as in
 * libtek.so, within the program: a critical thread goes before its other threads. The other
 * settings concern kernel threads: setting them fails with ENOTSUP, and that is reported once.
 */
#include "uthread/posix/sched.h"

#include "base/channel.h"
#include "base/export.h"
#include "base/line.h"
#include "uthread/posix/roles.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <tek/tek.h>
#include <unistd.h>

#undef tek_gettid
#undef tek_self_fast

static int refuse(const char *function)
{
	static atomic_bool reported;
	const int error = errno;

	if (!atomic_exchange(&reported, true)) {
		struct tek_event event = tek__channel_event(TEK_EVENT_BAD_OPTION);
		struct tek_line line = {0};

		tek__line_add(&line, function);
		tek__line_add(&line, "() and its like are not supported on user-level threads");
		memcpy(event.text, line.text,
		       line.length < sizeof(event.text) - 1 ? line.length : sizeof(event.text) - 1);
		if (!tek__channel_append(&event)) {
			line = (struct tek_line){0};
			tek__line_add(&line, "tek: ");
			tek__line_add(&line, tek__channel_program());
			tek__line_add(&line, ": ");
			tek__line_add(&line, (const char *)event.text);
			tek__line_add(&line, "\n");
			tek__channel_report(line.text, line.length);
		}
	}
	errno = error;
	return ENOTSUP;
}

TEK_EXPORT int tek_critical_enter(void)
{
	return tek_ut__posix_self() ? tek_ut__sched_critical_enter() : refuse("tek_critical_enter");
}

TEK_EXPORT int tek_critical_leave(void)
{
	return tek_ut__posix_self() ? tek_ut__sched_critical_leave() : EINVAL;
}

TEK_EXPORT int tek_critical_for(uint64_t ns)
{
	return ns ? refuse("tek_critical_for") : EINVAL;
}

TEK_EXPORT int tek_thread_mark(pthread_t thread, int marked)
{
	(void)thread, (void)marked;
	return refuse("tek_thread_mark");
}

TEK_EXPORT int tek_thread_set_group(pthread_t thread, enum tek_group group)
{
	(void)thread, (void)group;
	return refuse("tek_thread_set_group");
}

TEK_EXPORT int tek_thread_get_group(pthread_t thread, enum tek_group *group)
{
	(void)thread, (void)group;
	return refuse("tek_thread_get_group");
}

/* As they are: no thread is marked, all are in the group of the first thread. */
static int get(const struct tek_posix *posix, struct tek_attributes *attributes)
{
	const struct tek_uthread *thread = tek_ut__posix_thread(posix);

	if (!thread)
		return ESRCH;
	memset(attributes, 0, sizeof(*attributes));
	memcpy(attributes->role, tek_ut__role_of(thread->name), sizeof(attributes->role));
	attributes->group = TEK_NORMAL;
	attributes->policy = atomic_load(&posix->policy);
	attributes->priority = atomic_load(&posix->priority);
	attributes->stack_bytes = posix->stack_bytes;
	return 0;
}

TEK_EXPORT int tek_thread_get_attributes(pthread_t handle, struct tek_attributes *attributes)
{
	struct tek_posix *posix;

	switch (tek_ut__posix_find(handle, &posix)) {
	case TEK_POSIX_LIVE:
		return get(posix, attributes);
	case TEK_POSIX_GONE:
		return ESRCH;
	default:
		return refuse("tek_thread_get_attributes");
	}
}

TEK_EXPORT int tek_thread_set_attributes(pthread_t handle, unsigned int which,
					 const struct tek_attributes *attributes)
{
	struct tek_posix *posix;

	if (which & ~TEK_ATTRIBUTES_ALL)
		return EINVAL;
	if (which & ~TEK_ATTRIBUTE_POLICY)
		return refuse("tek_thread_set_attributes");
	switch (tek_ut__posix_find(handle, &posix)) {
	case TEK_POSIX_LIVE:
		return which ? tek_ut__sched_set(posix, attributes->policy, attributes->priority)
			     : 0;
	case TEK_POSIX_GONE:
		return ESRCH;
	default:
		return refuse("tek_thread_set_attributes");
	}
}

TEK_EXPORT int pthread_get_attributes(pthread_t thread, struct tek_attributes *attributes)
{
	return tek_thread_get_attributes(thread, attributes);
}

/* Fields that are not set here must be as pthread_get_attributes() gives them. */
TEK_EXPORT int pthread_set_attributes(pthread_t thread, const struct tek_attributes *attributes)
{
	struct tek_attributes now;
	int error = tek_thread_get_attributes(thread, &now);

	if (error)
		return error;
	if (attributes->critical != now.critical || attributes->group != now.group ||
	    strncmp(attributes->role, now.role, sizeof(now.role)) != 0)
		return refuse("pthread_set_attributes");
	if (attributes->policy == now.policy && attributes->priority == now.priority)
		return 0;
	return tek_thread_set_attributes(thread, TEK_ATTRIBUTE_POLICY, attributes);
}

/*
 * A kernel thread is another user-level thread's a moment later, so its number says nothing: but 0
 * is the calling one.
 */
TEK_EXPORT int tek_tid_get_attributes(pid_t tid, struct tek_attributes *attributes)
{
	const struct tek_posix *self = tek_ut__posix_self();

	return tid || !self ? refuse("tek_tid_get_attributes") : get(self, attributes);
}

TEK_EXPORT int tek_tid_set_attributes(pid_t tid, unsigned int which,
				      const struct tek_attributes *attributes)
{
	return tid || !tek_ut__posix_self()
		       ? refuse("tek_tid_set_attributes")
		       : tek_thread_set_attributes(pthread_self(), which, attributes);
}

TEK_EXPORT int tek_attributes_refresh(struct tek_attributes *attributes)
{
	(void)attributes;
	return refuse("tek_attributes_refresh");
}

TEK_EXPORT int tek_stack_get(pthread_t thread, struct tek_stack_info *info)
{
	(void)thread, (void)info;
	return refuse("tek_stack_get");
}

TEK_EXPORT int tek_tid_stack_get(pid_t tid, struct tek_stack_info *info)
{
	(void)tid, (void)info;
	return refuse("tek_tid_stack_get");
}

/* The kernel's, of the kernel thread that carries the calling one just now. */
TEK_EXPORT pid_t tek_gettid(void)
{
	return (pid_t)syscall(SYS_gettid);
}

TEK_EXPORT int tek_self_checked(pid_t *tid)
{
	*tid = tek_gettid();
	return 0;
}

TEK_EXPORT pid_t tek_self_fast(void)
{
	return tek_gettid();
}

TEK_EXPORT int tek_follow_marked(int on)
{
	(void)on;
	return refuse("tek_follow_marked");
}

TEK_EXPORT int tek_set_budget(uint64_t cpu_ns, uint64_t window_ns)
{
	(void)cpu_ns, (void)window_ns;
	return refuse("tek_set_budget");
}

/* User-level threads need no right of the process. */
TEK_EXPORT int tek_check(void)
{
	return 0;
}

TEK_EXPORT const char *tek_version(void)
{
	return TEK_VERSION;
}
