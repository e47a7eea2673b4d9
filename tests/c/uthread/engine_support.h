/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Engines of each kind, one after another, and threads for them. */
#ifndef TESTS_ENGINE_SUPPORT_H
#define TESTS_ENGINE_SUPPORT_H

#include "uthread_support.h"

/* All that preempt, with one kernel thread and with several. */
static const char *const engines[] = {
	"workers=1",
	"workers=1,quantum=50us",
	"workers=3,quantum=200us",
	"workers=1,preempt=klt,quantum=1ms",
	"workers=3,preempt=klt,quantum=1ms",
	"workers=2,sched=steal,quantum=1ms",
	"workers=2,sched=fifo",
	"workers=2,sched=mlfq,quantum=1ms",
	"workers=2,sched=psjf,quantum=1ms",
	"own:workers=1,quantum=200us",
	"own:workers=3,quantum=200us",
	"own:workers=2,preempt=klt,quantum=1ms",
};

static inline void with_all_engines(void (*body)(void))
{
	for (size_t i = 0; i < sizeof(engines) / sizeof(engines[0]); i++)
		with_engine(engines[i], body);
}

static atomic_long count;
static atomic_bool stop;

static inline void *give_back(void *argument)
{
	atomic_fetch_add(&count, 1);
	return argument;
}

static inline void create_and_join(void)
{
	for (uintptr_t i = 0; i < 10000; i++)
		CHECK(join(spawn(give_back, (void *)i)) == (void *)i);
}

static inline void *spin(void *argument)
{
	volatile unsigned long *iterations = argument;
	while (!atomic_load_explicit(&stop, memory_order_relaxed))
		(*iterations)++;
	return NULL;
}

#endif
