/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Calls in which the C library makes threads of its own, out of our sight: they begin with what the
 * caller has.  Its one CPU is not meant for them, and under SCHED_FIFO they would wait there until
 * it waits; nor is the Fast Region.
 */
#include "base/export.h"
#include "base/real.h"
#include "life/replace.h"
#include "life/start.h"

#include <errno.h>
#include <mqueue.h>
#include <signal.h>
#include <time.h>

/*
 * True for SIGEV_THREAD: the C library makes the notified thread, and a helper that waits for the
 * time.
 */
static bool is_notified_by_thread(const struct sigevent *event)
{
	return event && event->sigev_notify == SIGEV_THREAD;
}

static void step_in(bool stepped_out)
{
	int saved = errno;
	if (stepped_out)
		tek__exec_step_in();
	errno = saved;
}

TEK_EXPORT int timer_create(clockid_t clock, struct sigevent *restrict event,
			    timer_t *restrict timer)
{
	bool stepped_out = tek__start() && is_notified_by_thread(event) && tek__exec_step_out();
	int result = tek__real.timer_create(clock, event, timer);
	step_in(stepped_out);
	return result;
}

TEK_EXPORT int mq_notify(mqd_t queue, const struct sigevent *event)
{
	bool stepped_out = tek__start() && is_notified_by_thread(event) && tek__exec_step_out();
	int result = tek__real.mq_notify(queue, event);
	step_in(stepped_out);
	return result;
}
