/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the seven programs of the paper (uthreads, 5) have in common.  They are plain programs of
 * POSIX threads that know nothing of TEK: two runs differ in the library of the threads.
 *
 *   int main(int argc, char **argv)
 *   {
 *           crew_begin(argc, argv, 1, 1);
 *           crew_run(work);            work(0) to work(crew.threads - 1), each in its own thread
 *           return crew_end("name", result, expected);
 *   }
 *
 * The size is that of the whole work, however many threads share it.
 */
#ifndef UTHREAD_CREW_H
#define UTHREAD_CREW_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct crew {
	unsigned int threads;
	uint64_t size;
};
extern struct crew crew;

/* Of the whole work the part of one thread: from `begin` to before `end`. */
struct crew_share {
	uint64_t begin, end;
};

/* Reads --threads and --size; exits with a message if they are none, or less than these. */
void crew_begin(int argc, char **argv, unsigned int least_threads, uint64_t least_size);

struct crew_share crew_share(unsigned int number);

/* Runs the threads, waits for all, and takes the time. Once. */
void crew_run(void (*work)(unsigned int number));

/* Prints one line of JSON. Returns the exit status: a wrong result is a failure. */
int crew_end(const char *program, uint64_t result, uint64_t expected);

/* Exits with a message if a pthread function has returned an error number. */
void crew_must(int error, const char *what);

#endif
