/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The names and limits of the options that `tek run` hands to the libraries. The libraries include
 * this header. The build script of crates/tek-abi makes its module `options` of it, and lib/ and
 * tests/ read the lists of files from it (lib/meson.build).
 *
 * A list calls its parameter for each kind: identifier, name, a few words for --help. Its order is
 * that of --help and of completions. Each kind begins a line: Meson reads lines.
 *
 * A limit is a number.
 */
#ifndef TEK_OPTIONS_H
#define TEK_OPTIONS_H

/* clang-format off */

/* --lock: lib/sync/lock_IDENTIFIER.c defines tek_sync__lock_IDENTIFIER. */
#define TEK_LOCK_KINDS(lock) \
	lock(tas, "tas", "spin lock: test-and-set") \
	lock(tatas, "tatas", "spin lock: reads until it is free, then test-and-set") \
	lock(ticket, "ticket", "spin lock: tickets, with exponential back-off") \
	lock(ticket_pb, "ticket-pb", "spin lock: tickets, with proportional back-off") \
	lock(k42, "k42", "spin lock: a queue with its nodes on the stacks of the waiting " \
		"threads") \
	lock(mcs, "mcs", "spin lock: a queue of nodes, one for each lock that a thread has") \
	lock(tp, "tp", "spins in a queue that passes over those that are preempted") \
	lock(park, "park", "spins for a while, then sleeps") \
	lock(futex, "futex", "sleeps at once") \
	lock(pi, "pi", "spins for a while, then sleeps, with priority inheritance") \
	lock(auto, "auto", "spins or sleeps, by what it has seen")

/* --rwlock: lib/sync/rwlock_IDENTIFIER.c defines tek_sync__rwlock_IDENTIFIER. */
#define TEK_RWLOCK_KINDS(rwlock) \
	rwlock(pf, "pf", "phase-fair ticket spin lock: readers and writers take turns") \
	rwlock(park, "park", "spins for a while, then sleeps; prefers readers or writers as " \
		"the program's attribute says")

/* --barrier: lib/sync/barrier_IDENTIFIER.c defines tek_sync__barrier_IDENTIFIER. */
#define TEK_BARRIER_KINDS(barrier) \
	barrier(central, "central", "counts in one place; spins until the last one has come") \
	barrier(dissemination, "dissemination", "log2(threads) steps, each spins on a line of " \
		"its own") \
	barrier(block, "block", "spins for a while, then sleeps") \
	barrier(mutex, "mutex", "mutex and condition variable: the baseline") \
	barrier(auto, "auto", "spins while there are CPUs for all, sleeps otherwise")

/* --sched: lib/uthread/sched_IDENTIFIER.c defines tek_ut__sched_IDENTIFIER. */
#define TEK_SCHEDULERS(sched) \
	sched(rr, "rr", "in turn, a quantum each") \
	sched(mlfq, "mlfq", "four levels: a thread that uses up its quantum sinks, one that " \
		"waits stays above") \
	sched(psjf, "psjf", "the thread that has used the fewest quanta first") \
	sched(fifo, "fifo", "by priority; a thread runs until it waits or one of a higher " \
		"priority is ready") \
	sched(steal, "steal", "a queue for each worker; one with an empty queue takes from " \
		"another's")

/* --preempt: enum tek_preempt has them in this order. */
#define TEK_PREEMPT_MODES(preempt) \
	preempt(DEFER, "defer", "by a timer, and never in the C library or an allocator") \
	preempt(KLT, "klt", "by a timer, anywhere: the thread of the kernel stays where it is " \
		"and another one goes on") \
	preempt(OFF, "off", "not at all: a thread runs until it waits or yields")

/* --engine-lock: enum tek_engine_lock has them in this order. */
#define TEK_ENGINE_LOCKS(engine_lock) \
	engine_lock(GIANT, "giant", "the scheduler, one lock for all") \
	engine_lock(WORKER, "worker", "each worker's run queues together") \
	engine_lock(OBJECT, "object", "each run queue: one a worker and priority")

/*
 * --alloc: those of libtek-alloc.so. crates/tek-command/src/values/alloc.rs adds the C library's
 * and installed ones, which TEK preloads as they are.
 */
#define TEK_ALLOC_KINDS(alloc) \
	alloc(TLSF, "tlsf", "takes bounded time, and grows") \
	alloc(POOL, "pool", "tlsf in SIZE bytes, all of them present at the start: pool=SIZE")

/* --group, and rules: TEK_GROUP_IDENTIFIER of tek_abi.h, in the order of their numbers. */
#define TEK_GROUP_NAMES(group) \
	group(NORMAL, "normal", "on the screen; where every thread starts") \
	group(URGENT, "urgent", "on the screen and interacting with the user") \
	group(SERVICE, "service", "daemons") \
	group(BACKGROUND, "background", "at work, invisible to the user")

/* --stack: TEK_STACK_MODE_IDENTIFIER of tek_table.h, in the order of their numbers. */
#define TEK_STACK_MODES(stack_mode) \
	stack_mode(OFF, "off", "leave stacks alone") \
	stack_mode(REPORT, "report", "measure them") \
	stack_mode(AUTO, "auto", "measure and fit them, with a margin") \
	stack_mode(TIGHT, "tight", "measure and fit them, to the page")

/* --stack, with auto or tight: IDENTIFIER in struct tek_stack_config. */
#define TEK_STACK_SWITCHES(stack_switch) \
	stack_switch(override, "override", "change sizes that the program chose, too") \
	stack_switch(grow, "grow", "a reserve below each fitted stack") \
	stack_switch(exact, "exact", "paint fitted stacks, so that peaks are exact")

/* --model: the libraries know only how many workers there are. */
#define TEK_MODELS(model) \
	model(ONE_TO_ONE, "1:1", "each is a thread of the kernel") \
	model(MANY_TO_ONE, "m:1", "all are on one thread of the kernel") \
	model(MANY_TO_MANY, "m:n", "they are on several threads of the kernel")

/* clang-format on */

/* Of TEK_RULES and TEK_CRITICAL, each. */
#define TEK_MAX_RULES 64
#define TEK_MAX_CRITICAL 64
/* Bytes of a pattern: for names of programs and threads, and for roles; for functions. */
#define TEK_PATTERN_BYTES 63
#define TEK_FUNCTION_PATTERN_BYTES 255

/* --budget: the window. */
#define TEK_WINDOW_MIN_NS 10000000ull      /* 10 ms */
#define TEK_WINDOW_MAX_NS 3600000000000ull /* 1 hour */

/* --rt-range: 99 is for the guard of a range that ends at 98. */
#define TEK_RT_LEAST 1
#define TEK_RT_MOST 98

/* --place */
#define TEK_PLACE_MOST_CPUS 1024   /* of the list, and the numbers in it are smaller */
#define TEK_PLACE_MOST_PRIORITY 49 /* the kernel's interrupt threads have 50 */
#define TEK_PLACE_USUAL_PRIORITY 1 /* below SCHED_TEK's */

/* --spin: spin iterations. */
#define TEK_MOST_SPINS 1000000000

/* --workers, --quantum, --promote, --pool, and --stack SIZE of user-level threads. */
#define TEK_WORKERS_MAX 256
#define TEK_QUANTUM_LEAST_NS 50000ull
#define TEK_QUANTUM_MOST_NS 10000000000ull
#define TEK_MOST_PROMOTE_QUANTA 1000000000
#define TEK_MOST_POOL_THREADS 10000000
#define TEK_UTHREAD_STACK_LEAST 16384
#define TEK_UTHREAD_STACK_MOST 1073741824 /* 1 GiB */

/* --stack-margin, in percent of the learnt bound; --stack-floor, in bytes; --stack-profiles */
#define TEK_STACK_MARGIN_LEAST 100
#define TEK_STACK_MARGIN_MOST 10000
#define TEK_STACK_FLOOR_MOST 1073741824   /* 1 GiB */
#define TEK_STACK_PERIOD_MOST_MS 3600000  /* 1 hour */
#define TEK_STACK_PROFILES_MOST_BYTES 511 /* of all directories, with colons between them */

/* --alloc pool=SIZE: bytes; and of a 32-bit program. */
#define TEK_POOL_LEAST 65536
#define TEK_POOL_MOST 549755813888ull /* 512 GiB */
#define TEK_POOL_MOST_32 1073741824   /* 1 GiB */

#endif
