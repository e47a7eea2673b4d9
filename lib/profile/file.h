/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The file of a profiled process (abi/tek_profile.h). It is made when counting begins, mapped as a
 * whole, and never closed. A child has a file of its own.
 *
 * Pages are requested before they are used, so a full file system costs counts and not the program.
 * Until then they cannot be accessed, so mlockall() does not fill the whole file.
 */
#ifndef TEK_PROFILE_FILE_H
#define TEK_PROFILE_FILE_H

#include "tek_profile.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* NULL: nothing is counted. */
extern struct tek_profile_header *tek_prof__file __attribute__((visibility("hidden")));

/*
 * Makes the file as TEK_PROFILE requests, CLOCK:PARENT:DIRECTORY. The clock is MONOTONIC, or
 * COUNTER@TICKS with so many ticks in a millisecond. Only children of that process are profiled, or
 * with 0 all processes. Returns NULL, or the reason why an expected file is missing.
 */
const char *tek_prof__file_make(const char *variable);

/* Whether a program is profiled that a child of this process starts, or this process itself. */
bool tek_prof__file_is_for(bool is_child);

/* This process is about to run another program; false: that failed. */
void tek_prof__file_replaced(bool is_replaced);

/* In a child: makes its own. */
void tek_prof__file_forked(void);

/* Writes a pair of times down: ticks and nanoseconds. */
void tek_prof__file_times(void);

static inline struct tek_profile_thread *tek_prof__file_thread(uint32_t number)
{
	return (struct tek_profile_thread *)((char *)tek_prof__file + TEK_PROFILE_THREADS_OFFSET +
					     (size_t)(number - 1) * TEK_PROFILE_THREAD_BYTES);
}

static inline struct tek_profile_object *tek_prof__file_objects(struct tek_profile_thread *thread)
{
	return (struct tek_profile_object *)((char *)thread + TEK_PROFILE_OBJECTS_OFFSET);
}

/*
 * Opens that part of the file, and has memory for it; false where there is none.  Many short
 * processes may be profiled at once, so what one does not need is not there.
 */
bool tek_prof__file_populate(struct tek_profile_header *file, size_t at, size_t bytes);

/* The next part of the file for a thread, by number, exclusive to it; 0: there is no more room. */
uint32_t tek_prof__file_take_thread(void);
/* An unused number: the next request gets it. */
void tek_prof__file_give_back_thread(uint32_t number);

/* Whether that part can be reached. */
bool tek_prof__file_has(uint32_t number);

/* A block for its waits; NULL: there is no more room. */
struct tek_profile_block *tek_prof__file_take_block(uint32_t thread, uint32_t sequence);

#endif
