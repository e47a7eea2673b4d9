/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Read-write locks of the C library whose holders are lifted while a Fast thread waits.
 *
 * The C library knows the thread that writes, and only the number of those that read. So each
 * thread has a list of the locks that it reads, of at most TEK_READ_LOCKS: a reader of more is not
 * lifted for the rest.
 *
 * The functions need no lock, unless noted otherwise. Those with the names of pthread.h return what
 * these return.
 */
#ifndef TEK_INHERIT_RWLOCK_H
#define TEK_INHERIT_RWLOCK_H

#include "base/until.h"
#include "threads/thread.h"

#include <pthread.h>

/* For the start: whether the C library keeps its data where this file was compiled to look. */
bool tek__rwlock_layout_is_known(void);

/* `call` is the address to which the function of pthread.h returns. */
int tek__rwlock_read(pthread_rwlock_t *lock, struct tek_until until, uintptr_t call);
int tek__rwlock_write(pthread_rwlock_t *lock, struct tek_until until, uintptr_t call);
int tek__rwlock_try_read(pthread_rwlock_t *lock);
int tek__rwlock_unlock(pthread_rwlock_t *lock, uintptr_t call);

/* The kernel id of the thread that writes; 0: none. As tek__mutex_owner(). */
pid_t tek__rwlock_writer(const void *lock, bool is_mine);

/* Whether the lock is in the list of a thread. */
bool tek__rwlock_is_read_by(const void *lock, const struct tek_thread *thread);

#endif
