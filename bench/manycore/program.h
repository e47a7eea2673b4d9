/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the four programs of the paper (rtos-linux-scalability-2018, 4) have in common.  They are
 * plain programs of POSIX threads that know nothing of TEK: two runs differ in the library of the
 * locks, the allocator and the scheduler.
 *
 *   int main(int argc, char **argv)
 *   {
 *           program_begin(argc, argv, &about);      reads the options; the time starts
 *           program_forget();                       the input was made; the time starts again
 *           program_enter(FILES);                   from here on it is file time
 *           program_enter(PARALLEL);
 *           program_run(count, work);               work(0) to work(count - 1), each in its thread
 *           program_enter(SERIAL);
 *           program_stop();                         the time ends; what follows checks the result
 *           return program_end("2f91", right);
 *   }
 *
 * Everything here is the main thread's.
 */
#ifndef MANYCORE_PROGRAM_H
#define MANYCORE_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

struct program_about {
	const char *name;
	uint64_t size, least_size, most_size; /* the first is the default */
	bool has_files, has_barrier;          /* and so the option */
};

/* The phase of the main thread. */
enum program_part { SERIAL, FILES, PARALLEL, PROGRAM_PARTS };

struct program {
	unsigned int threads;
	uint64_t size;
	bool files_in_memory; /* --files memory: of this process, no system calls */
	bool pthread_barrier; /* --barrier pthread: not the program's own */
	/* The program's counters, for its line. */
	uint64_t locks, barriers;
};
extern struct program program;

void program_begin(int argc, char **argv, const struct program_about *about);

/* Forgets the time so far: it was no part of the program, but its input being made. */
void program_forget(void);

void program_enter(enum program_part part);

void program_stop(void);

/* Runs so many threads and waits for them. */
void program_run(unsigned int count, void (*work)(unsigned int number));

/* Prints one line of JSON. Returns the exit status: a wrong result is a failure. */
int program_end(const char *result, bool right);

/* Of `size` things the part of one of `count` threads: from *begin to before *end. */
static inline void program_share(uint64_t size, unsigned int count, unsigned int number,
				 uint64_t *begin, uint64_t *end)
{
	*begin = size * number / count;
	*end = size * (number + 1) / count;
}

/* Exits with a message if a pthread function has returned an error number. */
void program_must(int error, const char *what);

/* Exits with a message if there is no memory. */
void *program_memory(void *memory);

#endif
