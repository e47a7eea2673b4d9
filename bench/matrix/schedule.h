/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* How the thread touch is scheduled in `tek bench matrix`.  Errors end the process. */
#ifndef MATRIX_SCHEDULE_H
#define MATRIX_SCHEDULE_H

enum schedule {
	SCHEDULE_ORDINARY,
	SCHEDULE_NICE,      /* Nice value -20. */
	SCHEDULE_REAL_TIME, /* SCHED_RR 50. */
	SCHEDULE_RTKIT,     /* SCHED_RR by rtkit, a service on the system bus of D-Bus. */
};

/* Changes the calling thread. */
void schedule_self(enum schedule schedule);

#endif
