/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The engine's state of descriptors: the waiters of each. A table with the descriptor as index, in
 * chunks that are made on demand, and stay.
 */
#ifndef TEK_UTHREAD_EVENTS_TABLE_H
#define TEK_UTHREAD_EVENTS_TABLE_H

#include "uthread/spin.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct tek_waiter;

/* A thread's wait for one descriptor: on the stack of that thread. */
struct tek_interest {
	struct tek_interest *next, *previous;
	struct tek_waiter *waiter;
	uint32_t events;
	bool takes; /* tek_ut__events_wait(): one such waiter is enough */
	bool listed;
};

/* Zero: no thread waits for it, and it is not in the epoll set. */
struct tek_file {
	struct tek_spin lock;
	atomic_bool claimed;
	atomic_bool
		registered; /* it was put into the epoll set, and the engine has not removed it */
	struct tek_interest
		*_Atomic first; /* written under the lock; whether it is NULL may be read without */
	struct tek_interest *last;
};

/* NULL: no thread has waited for it yet. */
struct tek_file *tek_ut__file_find(int file);

/* The same, and makes it; NULL: no memory, or the number is out of range. Not under a lock. */
struct tek_file *tek_ut__file_make(int file);

/* The first one from `file` on that a thread may wait for; -1: none. */
int tek_ut__file_from(int file);

/* All are as at the start. By the only thread. */
void tek_ut__files_forget(void);

/* Under its lock. */
void tek_ut__file_add(struct tek_file *entry, struct tek_interest *interest);
void tek_ut__file_remove(struct tek_file *entry, struct tek_interest *interest);

#endif
