/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The engine as a whole: its options, its start, its end. */
#ifndef TEK_UTHREAD_ENGINE_H
#define TEK_UTHREAD_ENGINE_H

#include "tek_options.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TEK_PREEMPT(mode, name, about) TEK_PREEMPT_##mode,
enum tek_preempt { TEK_PREEMPT_MODES(TEK_PREEMPT) };
#undef TEK_PREEMPT

/* What has a lock of its own in the scheduler fifo. */
#define TEK_LOCK(lock, name, about) TEK_LOCK_##lock,
enum tek_engine_lock { TEK_ENGINE_LOCKS(TEK_LOCK) };
#undef TEK_LOCK

struct tek_engine_options {
	unsigned int workers; /* 1 to TEK_WORKERS_MAX */
	const struct tek_sched *sched;
	uint64_t quantum_ns; /* TEK_QUANTUM_LEAST_NS to TEK_QUANTUM_MOST_NS */
	enum tek_preempt preempt;
	size_t stack_bytes;     /* of threads that set none */
	bool own_tls;           /* each thread has thread-local storage of its own */
	bool pin;               /* each worker's carriers stay on one CPU, in turn of */
	unsigned int pin_count; /* these CPUs; 0: of all that the process may use */
	unsigned short pin_cpus[TEK_WORKERS_MAX];
	bool foreign;            /* kernel threads that are not the engine's may call it */
	uint64_t promote_quanta; /* mlfq: after this number the lowest level goes to the top */
	unsigned int
		pool; /* of fifo: threads that are made at the start, and no more; 0: as needed */
	enum tek_engine_lock lock; /* of fifo */
	const char *trace;         /* path; NULL: none */
};

extern struct tek_engine_options tek_ut__engine __attribute__((visibility("hidden")));

/* The options without any setting. */
struct tek_engine_options tek_ut__engine_defaults(void);

/*
 * One of them by its name: "workers=4", as in TEK_UTHREAD and the options of `tek run`. `text` has
 * `size` bytes. NULL, or the reason why it is wrong.
 */
const char *tek_ut__engine_option(struct tek_engine_options *options, const char *text,
				  size_t size);

/*
 * All of a comma-separated list. Each wrong item is reported to `wrong`, and skipped. The path of
 * `trace` is copied, once.
 */
void tek_ut__engine_parse(struct tek_engine_options *options, const char *list,
			  void (*wrong)(const char *text, size_t size, const char *why));

/* Reports this wrong part of TEK_UTHREAD on standard error. One write: stdio may not be ready. */
void tek_ut__engine_complain(const char *text, size_t size, const char *why);

/*
 * The calling thread becomes the first user-level thread. 0 or an error number; EBUSY: it runs
 * already.
 */
int tek_ut__engine_start(const struct tek_engine_options *options);
bool tek_ut__engine_runs(void);

/*
 * In the child of fork(), by the thread that forked: alone, on worker 0. Before the fork it calls
 * tek_ut__enter() and closes the guards (guard.h). Afterwards it calls tek_ut__leave(), in the
 * parent and in the child; the parent opens the guards first. After a fork by a kernel thread the
 * engine has no thread.
 */
void tek_ut__engine_after_fork(void);

#endif
