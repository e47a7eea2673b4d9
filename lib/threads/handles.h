/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The threads of this process by pthread_t. thread.c keeps it, index.h has them by tid.
 *
 * All functions need the lock (threads/process.h); tek__handles_forget() does not.
 */
#ifndef TEK_THREADS_HANDLES_H
#define TEK_THREADS_HANDLES_H

#include "threads/thread.h"

/* NULL: not known. The thread may have ended unseen: the kernel is not asked. */
struct tek_thread *tek__handles_find(pthread_t handle);

/* By its handle, which is known and no other thread's here. */
void tek__handles_insert(struct tek_thread *thread);

/* Its handle is that which it was inserted with. Does nothing if it is not there. */
void tek__handles_remove(struct tek_thread *thread);

/* In the child of any kind of fork. */
void tek__handles_forget(void);

#endif
