/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The appliance's threads: their roles, and what the kernel reports of each. */
#ifndef APPLIANCE_THREADS_H
#define APPLIANCE_THREADS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum thread_kind {
	KIND_EVENT,  /* on the path of a touch event */
	KIND_SENSOR, /* periodic, short work */
	KIND_HOG,    /* CPU-bound */
};

/* The kernel's counters for a thread. */
struct thread_counts {
	uint64_t voluntary; /* context switches */
	uint64_t involuntary;
	uint64_t cpu_ns;       /* time on a CPU */
	uint64_t run_delay_ns; /* time runnable, but waiting for a CPU */
	bool has_run_delay;    /* whether this kernel counts that */
};

/* How the kernel schedules a thread. */
struct thread_sched {
	uint32_t policy;
	uint32_t priority;
	int32_t nice;
	uint64_t flags;
};

struct thread {
	const char *name;
	const char *group;
	enum thread_kind kind;
	void (*run)(struct thread *self);

	pthread_t handle;
	pid_t tid;
	struct thread_counts counts; /* during the events */
	struct thread_sched before;  /* at its start, before anything makes it critical */
	struct thread_sched during;  /* at the end of the events */
	struct thread_sched after;   /* when it has left everything it asked for */
	uint64_t iterations;         /* a hog's loop iterations during the events */
	/* A hog's longest gap between two of them, a sensor's longest time from when a
	   reading was due until it was made. */
	uint64_t stall_ns;
};

#define MAX_THREADS 256

extern struct thread threads[MAX_THREADS];
extern unsigned thread_count;

/* Add a thread to the table. Exits with a message when the table is full. */
void thread_add(const char *name, const char *group, enum thread_kind kind,
		void (*run)(struct thread *self));

/* Start all of them, and wait until each has its name and has parked. */
void threads_start(void);

/* Wait for the end of all of them. */
void threads_join(void);

/* Between the two calls the counters of all threads are counted into their `counts`. */
void threads_count_begin(void);
void threads_count_end(void);

/* Ask the kernel how a thread is scheduled. Exits with a message on failure. */
struct thread_sched thread_sched_read(pid_t tid);

#endif
