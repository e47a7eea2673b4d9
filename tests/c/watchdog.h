/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Ends a program whose tests hang, with a core, before tools/check gives up all of Meson's tests
 * because none says anything (TEST_SILENCE).  Not alarm(2): tests use its timer themselves.
 * Children of fork() have none.
 */
#ifndef TESTS_WATCHDOG_H
#define TESTS_WATCHDOG_H

#include "patience.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>

#define WATCHDOG_SECONDS 200

static inline void start_watchdog(void)
{
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGABRT};
	const struct itimerspec once = {.it_value.tv_sec = patient_seconds(WATCHDOG_SECONDS)};
	timer_t timer;

	if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &once, NULL))
		abort();
}

#endif
