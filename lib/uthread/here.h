/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The engine's state of the calling thread, a few words of thread-local storage: its worker, its
 * carrier, its user-level thread, and whether preemption is deferred.
 *
 * With storage of their own (uthread/tls.h) it is the user-level thread's storage, else that of the
 * kernel thread that carries it. Each switch writes these words, so both mean the same.
 *
 * A compiler may keep the address of a thread-local variable in a register, across a switch that
 * moves the thread to another kernel thread too. So each access here computes the address again, in
 * the very instruction: no signal can come in between.
 *
 * While `defer` is not 0 the thread stays on its worker: only then a value read from `worker` stays
 * true. A tick that arrives meanwhile is noted in `pending`.
 */
#ifndef TEK_UTHREAD_HERE_H
#define TEK_UTHREAD_HERE_H

#include "uthread/spin.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tek_carrier;
struct tek_uthread;
struct tek_worker;

/* struct tek_here.pending, bits. */
enum {
	TEK_PENDING_CHECK = 1, /* a thread goes before it, or a signal for it has arrived */
	TEK_PENDING_TICK = 2,  /* a quantum has passed */
};

struct tek_here {
	struct tek_worker *worker; /* NULL: of no worker. True while preemption is deferred */
	struct tek_worker
		*entry; /* for tek_ut__enter(): the same, or NULL if the monitor takes it away
	                              (uthread/carrier.h) */
	struct tek_uthread *self; /* NULL: an ordinary kernel thread */
	unsigned int defer;
	unsigned int pending;
	struct tek_carrier *carrier; /* the kernel thread that carries it; NULL: an ordinary one */
	struct tek_spin lock;        /* while `entry` becomes or is NULL: carrier.h */
};

extern __thread struct tek_here tek_ut__here
	__attribute__((visibility("hidden"), tls_model("initial-exec")));

#if defined(__x86_64__)

#define TEK__HERE_LOAD(field, value) \
	__asm__ volatile("movq tek_ut__here@gottpoff(%%rip), %0\n\tmovq %%fs:%c1(%0), %0" \
			 : "=&r"(value) \
			 : "i"(offsetof(struct tek_here, field)) \
			 : "memory")

static inline struct tek_worker *tek_ut__here_worker(void)
{
	struct tek_worker *worker;
	TEK__HERE_LOAD(worker, worker);
	return worker;
}

static inline struct tek_worker *tek_ut__here_entry(void)
{
	struct tek_worker *entry;
	TEK__HERE_LOAD(entry, entry);
	return entry;
}

static inline struct tek_uthread *tek_ut__here_self(void)
{
	struct tek_uthread *self;
	TEK__HERE_LOAD(self, self);
	return self;
}

static inline struct tek_carrier *tek_ut__here_carrier(void)
{
	struct tek_carrier *carrier;
	TEK__HERE_LOAD(carrier, carrier);
	return carrier;
}

/* Where it is now: for a caller that has deferred preemption, and only until the next switch. */
static inline struct tek_here *tek_ut__here_find(void)
{
	struct tek_here *here;
	__asm__ volatile("movq %%fs:0, %0\n\taddq tek_ut__here@gottpoff(%%rip), %0"
			 : "=r"(here)
			 :
			 : "cc");
	return here;
}

static inline void tek_ut__here_defer(void)
{
	uintptr_t at;
	__asm__ volatile("movq tek_ut__here@gottpoff(%%rip), %0\n\tincl %%fs:%c1(%0)"
			 : "=&r"(at)
			 : "i"(offsetof(struct tek_here, defer))
			 : "memory", "cc");
}

/* Returns whether nothing defers any more and a tick has arrived meanwhile. */
static inline bool tek_ut__here_undefer(void)
{
	uint32_t pending;
	uintptr_t at;
	bool zero;
	__asm__ volatile("movq tek_ut__here@gottpoff(%%rip), %1\n\t"
			 "decl %%fs:%c3(%1)\n\t"
			 "movl %%fs:%c4(%1), %0"
			 : "=&r"(pending), "=&r"(at), "=@ccz"(zero)
			 : "i"(offsetof(struct tek_here, defer)),
			   "i"(offsetof(struct tek_here, pending))
			 : "memory");
	return __builtin_expect(pending != 0, 0) && zero;
}

static inline bool tek_ut__here_contains(uintptr_t address)
{
	(void)address;
	return false;
}

#else

/*
 * Each takes several instructions, so they are functions, which lie together: a thread that is
 * interrupted in there stays on its kernel thread (sections.h).
 */
struct tek_here *tek_ut__here_find(void);
struct tek_worker *tek_ut__here_worker(void);
struct tek_worker *tek_ut__here_entry(void);
struct tek_uthread *tek_ut__here_self(void);
struct tek_carrier *tek_ut__here_carrier(void);
void tek_ut__here_defer(void);
bool tek_ut__here_undefer(void);

/* Their range: the linker's names for a section's begin and end. */
extern const char __start_tek_here[] __attribute__((visibility("hidden")));
extern const char __stop_tek_here[] __attribute__((visibility("hidden")));

static inline bool tek_ut__here_contains(uintptr_t address)
{
	return address - (uintptr_t)__start_tek_here <
	       (uintptr_t)__stop_tek_here - (uintptr_t)__start_tek_here;
}

#endif
#endif
