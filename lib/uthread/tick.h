/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The engine's signal: the tick of timers, and the kick by which one kernel thread makes another
 * poll.
 *
 * The C library reserves this signal for itself (reserved.h), as a rule to cancel its threads. No
 * program can handle, block or send it, because the C library does not allow that. Debuggers pass
 * it on silently, because each cancellation would stop them otherwise. The engine's own signals
 * carry a value; all other ones go to the C library's handler. Go uses SIGURG for the same purpose,
 * but some programs wait for that signal, and block it.
 *
 * ThreadSanitizer intercepts handlers and reserves that signal: there the tick is SIGSTKFLT.
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
 * The current handler, NULL before tek_ut__tick_start(), and a new one from now on. For a trial, in
 * which the handler passes ticks of other kernel threads to the first one.
 */
tek_tick_handler *tek_ut__tick_handler(void);
void tek_ut__tick_set_handler(tek_tick_handler *handler);

/*
 * From now on the handler is called for each, with the signal blocked. 0 or an error number;
 * ENOTSUP: the C library does not keep that signal for itself.
 */
int tek_ut__tick_start(tek_tick_handler *handler);

/*
 * By that handler, before another thread or the program may run on the kernel thread. Until then
 * ticks in quick succession do not pile up on the stack.
 */
void tek_ut__tick_unblock(void);

/* The value that a timer carries, with TEK_TICK_SIGNAL; si_code is SI_TIMER then. */
union sigval tek_ut__tick_value(void);

/*
 * Sends one to a kernel thread of this process, with SI_QUEUE. False: too many signals are queued
 * (RLIMIT_SIGPENDING). From anywhere.
 */
bool tek_ut__tick_send(pid_t tid);

/* The same for a probe: tick_cost.h. The handler is called for it as for the others. */
bool tek_ut__tick_send_probe(pid_t tid);
bool tek_ut__tick_is_probe(const siginfo_t *info);

/* Bytes of stack that the kernel took for the first one that arrived; 0: none has arrived. */
size_t tek_ut__tick_frame_bytes(void);

/*
 * Until tek_ut__tick_heed() ticks are ignored, and queued ones are discarded: before another
 * program replaces this one, which a queued tick would kill.
 */
void tek_ut__tick_ignore(void);
void tek_ut__tick_heed(void);

#endif
