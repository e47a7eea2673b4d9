/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "threads/scheduling.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

int tek__scheduling_get(pid_t tid, struct tek_sched_attr *attr)
{
	return syscall(SYS_sched_getattr, tid, attr, sizeof(*attr), 0) ? errno : 0;
}

int tek__scheduling_query(pid_t tid, struct tek_seen *seen)
{
	struct tek_sched_attr attr = {0};
	int saved = errno;
	int error = tek__scheduling_get(tid, &attr);

	errno = saved;
	*seen = (struct tek_seen){
		.policy = (unsigned char)attr.policy,
		.nice = (signed char)attr.nice,
		.rt_priority = (unsigned char)attr.priority,
		.reset_on_fork = attr.flags & TEK_ATTR_RESET_ON_FORK,
	};
	return error;
}

int tek__scheduling_nice(pid_t tid)
{
	int saved = errno;
	int nice = getpriority(PRIO_PROCESS, (id_t)tid);
	errno = saved;
	return nice;
}
