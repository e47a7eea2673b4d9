/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The engine's signal: the tick of timers, and the kick by which one kernel thread makes another one look.
 *
 * It is one that the C library keeps for itself (reserved.h), as a rule the one by which it
 * cancels its threads.  No program can have a handler for it, block it or send it, because the C
 * library does not let it; debuggers hand it over without a word, because each cancellation would
 * stop them otherwise.  Ours are told apart by a value that they carry, and all others go to the
 * C library's handler.  Go, which has the same to decide, took SIGURG, which debuggers do not
 * stop at either; but there are programs that wait for it, and block it.
 *
 * ThreadSanitizer has to know of handlers and lets nobody have that signal: there it is SIGSTKFLT.
 */
#ifndef TEK_UTHREAD_TICK_H
#define TEK_UTHREAD_TICK_H

#include "uthread/sanitizer.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#if defined(TEK_FIBERS_TSAN)
#define TEK_TICK_SIGNAL SIGSTKFLT
#else
#define TEK_TICK_SIGNAL 32
#endif

/* In the kernel's mask of signals. */
#define TEK_TICK_BIT (1ull << (TEK_TICK_SIGNAL - 1))

typedef void tek_tick_handler(siginfo_t *info, void *context);

/*
 * The handler that is called now, NULL before tek__tick_start(), and another one from now on.  For
 * a trial, whose handler passes ticks of other kernel threads to the first one.
 */
tek_tick_handler *tek__tick_handler(void);
void tek__tick_set_handler(tek_tick_handler *handler);

/*
 * From now on the handler is called for each, with the signal blocked. 0 or an error number;
 * ENOTSUP: the C library does not keep that signal for itself.
 */
int tek__tick_start(tek_tick_handler *handler);

/*
 * By that handler, before somebody else may run on the kernel thread, or the program does.  Until then ticks in quick
 * succession do not pile up on the stack.
 */
void tek__tick_unblock(void);

/* What a timer is to carry, with TEK_TICK_SIGNAL; si_code is SI_TIMER then. */
union sigval tek__tick_value(void);

/*
 * Sends one to a kernel thread of this process, with SI_QUEUE.  False: too many signals wait already
 * (RLIMIT_SIGPENDING).  From anywhere.
 */
bool tek__tick_send(pid_t tid);

/* How much of a stack the kernel took for the first one that came, in bytes; 0: none has come. */
size_t tek__tick_frame_bytes(void);

/*
 * Until tek__tick_heed() ticks are ignored, and those that wait are gone: before another program takes this one's place,
 * which one that waits would kill.
 */
void tek__tick_ignore(void);
void tek__tick_heed(void);

#endif
