/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Descriptors of the engine's own, which the program does not know of.
 *
 * It may close all descriptors that it does not know, or want one of these numbers for a file of its own.  So the
 * functions of the preload object (posix/blocking_close.c) find them to be closed already, and when a number
 * is wanted for something else they move.  Whoever uses one reads its number each time.
 */
#ifndef TEK_UTHREAD_HIDDEN_H
#define TEK_UTHREAD_HIDDEN_H

#include <stdatomic.h>
#include <stdbool.h>

enum {
	TEK_HIDDEN_EPOLL,   /* events_set.c */
	TEK_HIDDEN_STOP,    /* events_set.c */
	TEK_HIDDEN_ROUTER,  /* posix/router.c */
	TEK_HIDDEN_SIGNALS, /* posix/router.c */
	TEK_HIDDEN_TRACE,   /* trace_file.c */
	TEK_HIDDEN_FILES,
};

/* -1: there is none. */
extern atomic_int tek__hidden[TEK_HIDDEN_FILES] __attribute__((visibility("hidden")));

static inline int tek__hidden_file(unsigned int which)
{
	return atomic_load_explicit(&tek__hidden[which], memory_order_relaxed);
}

/*
 * `file`, just opened, gets a high number, where programs and what they count on hardly come across it.  Returns it;
 * -errno if `file` is -1.
 */
int tek__hidden_place(int file);

/* Closes it, if there is one. */
void tek__hidden_close(unsigned int which);

/*
 * The program has closed some by a system call of its own: those are forgotten, so that a new file,
 * which may get such a number, is not taken for the old one.  Before any of them is made again.
 */
void tek__hidden_forget_closed(void);

/* The first of them from `file` on; -1: none. */
int tek__hidden_next(int file);

static inline bool tek__hidden_is(int file)
{
	return tek__hidden_next(file) == file && file >= 0;
}

/*
 * The program is about to use the number `file`: if it is one of them, that is somewhere else from now on, and
 * `file` may be replaced.  False: there is no other number.
 */
bool tek__hidden_move(int file);

/* Whether the caller is a process that borrows our memory, a child of vfork(2); known since the engine started. */
bool tek__hidden_borrowed(void);
void tek__hidden_start(void); /* in the child of fork(2), again */

#endif
