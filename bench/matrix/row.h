/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A row of `tek bench matrix`: what the thread touch waits for while it answers an event.
 *
 * main() calls prepare() before it starts a thread, then start(), and touch calls answer() once an
 * event.  A row has no end: its threads end with the process.  Errors end the process.
 */
#ifndef MATRIX_ROW_H
#define MATRIX_ROW_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* CPU time of an answer, and of each step of another thread that it waits for, in ms. */
#define ANSWER_MS 2
#define PART_MS 1

/* From the end of an answer to the next event, in ns. */
#define PAUSE_NS 10000000ull

struct row {
	const char *name;
	/* Makes objects and processes.  May be NULL. */
	void (*prepare)(void);
	/* Starts processes that run only where hogs do.  May be NULL. */
	void (*press)(void);
	/* Starts the background threads.  May be NULL. */
	void (*start)(void);
	/* Waits for the dependency at an event.  NULL: touch depends on nothing. */
	void (*wait)(void);
	/* Waits for an event and its dependency; returns its time in ns.  NULL: a timer. */
	uint64_t (*event)(void);
};

/*
 * Each ends with a row without a name.  bus_rows is part of dependencies-dbus only, mariadb_rows of
 * dependencies-mariadb.
 */
extern const struct row lock_rows[], other_rows[], rust_rows[], memory_rows[], cache_rows[],
	bus_rows[], mariadb_rows[];

/* The library of rust_rows. */
extern const char *rust_library;

/* The memory that main(), the hogs and the row shared-mutex share. */
struct shared {
	pthread_mutex_t mutex;
	/* Steps of the background threads, and iterations of the hogs.  i386 aligns to 4. */
	uint64_t background __attribute__((aligned(8))), hogs __attribute__((aligned(8)));
};

extern struct shared *shared;

/* Whether mutexes have PTHREAD_PRIO_INHERIT. */
extern bool inherit;

/* Uses the CPU for about this long. */
void work_ms(unsigned ms);

/* Counts a step of the background work. */
void background_did(void);

/* The same for a hog. */
void hog_did(void);

/* Starts a thread with a name of at most 15 bytes. */
void thread_start(const char *name, void *(*run)(void *), void *arg);

/* The calling process is killed when its parent ends. */
void end_with(pid_t parent);

/* fork(); returns true in the child, which ends with its parent, or after the limit. */
bool child_start(void);

/* Ends the process with a message if a function returned an error number. */
void must(int error, const char *what);

#endif
