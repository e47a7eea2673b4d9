/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Descriptors of the engine's own, unknown to the program.
 *
 * The program may close all unknown descriptors, or want one of these numbers for a file of its
 * own. So the functions of the preload object (posix/blocking_close.c) treat them as closed
 * already, and they move when the program wants the number. Each user of one reads its number each
 * time.
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
extern atomic_int tek_ut__hidden[TEK_HIDDEN_FILES] __attribute__((visibility("hidden")));

static inline int tek_ut__hidden_file(unsigned int which)
{
	return atomic_load_explicit(&tek_ut__hidden[which], memory_order_relaxed);
}

/*
 * `file`, just opened, gets a high number, which programs rarely use or rely on. Returns it; -errno
 * if `file` is -1.
 */
int tek_ut__hidden_place(int file);

/* Closes it, if there is one. */
void tek_ut__hidden_close(unsigned int which);

/*
 * The program has closed some by a system call of its own: those are forgotten. Else a new file,
 * which may get such a number, would be taken for the old one. Before any of them is made again.
 */
void tek_ut__hidden_forget_closed(void);

/* The first of them from `file` on; -1: none. */
int tek_ut__hidden_next(int file);

static inline bool tek_ut__hidden_is(int file)
{
	return tek_ut__hidden_next(file) == file && file >= 0;
}

/*
 * The program is about to use the number `file`: if it is one of them, that one moves, and `file`
 * may be replaced. False: there is no other number.
 */
bool tek_ut__hidden_move(int file);

/*
 * Whether the caller is a child of vfork(2), which borrows our memory; known since the engine
 * started.
 */
bool tek_ut__hidden_borrowed(void);
void tek_ut__hidden_start(void); /* in the child of fork(2), again */

#endif
