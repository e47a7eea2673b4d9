/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "worker.h"

#include "spread.h"

#include <alloca.h>
#include <err.h>
#include <errno.h>
#include <stdlib.h>

#define ALIGN 16

#define BYTES(number, bytes) bytes,
static const size_t published[] = {LEVELS(BYTES)};
#define COUNT (sizeof(published) / sizeof(published[0]))

#define LEVEL_OF(number) number,
static const unsigned char level_of[] = {THREADS(LEVEL_OF)};
_Static_assert(sizeof(level_of) == WORKERS, "spread.csv has the threads that Fig. 11 has");

static size_t bytes_of[COUNT];
static sem_t dug;

static void wait_for(sem_t *semaphore)
{
	while (sem_wait(semaphore))
		;
}

/*
 * Use every page from here down to `lowest`, and that very byte.  Nothing is called, so nothing
 * below it is used.
 */
static __attribute__((noinline)) void dig(uintptr_t lowest)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);

	if (here <= lowest)
		errx(EXIT_FAILURE, "a thread uses %zu bytes more than it should at its begin",
		     (size_t)(lowest - here));
	/* Below the frame's own variables, so it begins at `lowest` or a little below. */
	volatile char *block = alloca(here - lowest);
	volatile char *bottom = block + (lowest - (uintptr_t)block);
	size_t bytes = (size_t)(block + (here - lowest) - bottom);
	for (size_t at = bytes; at-- > 0; at -= at < 1024 ? at : 1024)
		bottom[at] = 1;
	bottom[0] = 1;
}

static __attribute__((noinline)) void *stay(struct worker *self, unsigned int level)
{
	wait_for(&self->go);
	dig(self->end - bytes_of[level]);
	sem_post(&dug);
	wait_for(&self->leave);
	return NULL;
}

#define START_ROUTINE(number, bytes) \
	static void *level_##number(void *self) \
	{ \
		return stay(self, number); \
	}
LEVELS(START_ROUTINE)

#define ENTRY(number, bytes) level_##number,
static void *(*const start_routine[COUNT])(void *) = {LEVELS(ENTRY)};

/* Steele, Lea and Flood: SplitMix. */
static uint64_t mixed(uint64_t x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
	return x ^ (x >> 31);
}

void workers_vary(double vary, uint64_t seed)
{
	for (unsigned int i = 0; i < COUNT; i++) {
		double share = (double)(mixed(mixed(seed) + i) >> 11) / (double)(1ull << 53);
		double factor = 1 + vary * (2 * share - 1);
		bytes_of[i] = (size_t)((double)published[i] * factor) / ALIGN * ALIGN;
	}
}

void workers_prepare(struct worker *workers)
{
	sem_init(&dug, 0, 0);
	for (unsigned int i = 0; i < WORKERS; i++) {
		workers[i] = (struct worker){.level = level_of[i]};
		sem_init(&workers[i].go, 0, 0);
		sem_init(&workers[i].leave, 0, 0);
	}
}

/* Here and not in the thread, because it allocates memory: the thread would get an arena. */
static void find_block(struct worker *worker)
{
	pthread_attr_t attr;
	void *low;
	size_t bytes;

	errno = pthread_getattr_np(worker->thread, &attr);
	if (!errno)
		errno = pthread_attr_getstack(&attr, &low, &bytes);
	if (!errno)
		errno = pthread_attr_getguardsize(&attr, &worker->guard_bytes);
	if (errno)
		err(EXIT_FAILURE, "cannot tell where the stack of a thread lies");
	pthread_attr_destroy(&attr);
	worker->low = (uintptr_t)low - worker->guard_bytes;
	worker->end = (uintptr_t)low + bytes;
}

static void begin(struct worker *worker)
{
	errno = pthread_create(&worker->thread, NULL, start_routine[worker->level], worker);
	if (errno)
		err(EXIT_FAILURE, "cannot start a thread");
	worker->alive = true;
	worker->used_bytes = bytes_of[worker->level];
	find_block(worker);
	sem_post(&worker->go);
}

void worker_start(struct worker *worker)
{
	begin(worker);
	wait_for(&dug);
}

void workers_start(struct worker *workers)
{
	for (unsigned int i = 0; i < WORKERS; i++)
		begin(&workers[i]);
	for (unsigned int i = 0; i < WORKERS; i++)
		wait_for(&dug);
}

void worker_end(struct worker *worker)
{
	sem_post(&worker->leave);
	pthread_join(worker->thread, NULL);
	worker->alive = false;
}
