/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/objects.h"

#include "base/definition.h"

#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>

/*
 * CALL(pthread_cond_init)(...): the C library's function, although other libraries may define the
 * same name before it.  Where the C library has no such function, the calling function returns
 * false.
 */
#define CALL(name) \
	({ \
		__typeof__(&name) function_ = (__typeof__(&name))tek__c_library_function(#name); \
		if (!function_) \
			return false; \
		function_; \
	})

/* The one bit that is set in `with` and clear in `without`. False: they differ in anything else. */
static bool find_flag(const void *without, const void *with, size_t bytes, struct tek_flag *flag)
{
	const unsigned char *before = without, *after = with;
	struct tek_flag found = {0};

	for (size_t at = 0; at < bytes; at++) {
		const unsigned char changed = before[at] ^ after[at];
		if (!changed)
			continue;
		if (found.bit || at > UCHAR_MAX || (changed & (changed - 1)) ||
		    !(after[at] & changed))
			return false;
		found = (struct tek_flag){(unsigned char)at, changed};
	}
	*flag = found;
	return found.bit != 0;
}

static bool make_cond(pthread_cond_t *cond, int shared, clockid_t clock)
{
	pthread_condattr_t attributes;

	memset(cond, 0, sizeof(*cond));
	if (pthread_condattr_init(&attributes) ||
	    pthread_condattr_setpshared(&attributes, shared) ||
	    pthread_condattr_setclock(&attributes, clock))
		return false;
	return CALL(pthread_cond_init)(cond, &attributes) == 0;
}

static bool find_cond(struct tek_objects *found)
{
	pthread_cond_t usual, shared, monotonic;

	return make_cond(&usual, PTHREAD_PROCESS_PRIVATE, CLOCK_REALTIME) &&
	       make_cond(&shared, PTHREAD_PROCESS_SHARED, CLOCK_REALTIME) &&
	       make_cond(&monotonic, PTHREAD_PROCESS_PRIVATE, CLOCK_MONOTONIC) &&
	       find_flag(&usual, &shared, sizeof(usual), &found->cond_shared) &&
	       find_flag(&usual, &monotonic, sizeof(usual), &found->cond_monotonic);
}

void tek__objects_keep_cond_flags(struct tek_objects *found, size_t from)
{
	if (!tek__flag_is_within(found->cond_shared, from, sizeof(pthread_cond_t)) ||
	    !tek__flag_is_within(found->cond_monotonic, from, sizeof(pthread_cond_t)))
		found->cond_shared.bit = found->cond_monotonic.bit = 0;
}

static bool make_rwlock(pthread_rwlock_t *lock, int shared, int kind)
{
	pthread_rwlockattr_t attributes;

	memset(lock, 0, sizeof(*lock));
	if (pthread_rwlockattr_init(&attributes) ||
	    pthread_rwlockattr_setpshared(&attributes, shared) ||
	    pthread_rwlockattr_setkind_np(&attributes, kind))
		return false;
	return CALL(pthread_rwlock_init)(lock, &attributes) == 0;
}

static bool find_rwlock(struct tek_objects *found)
{
	const pthread_rwlock_t as_headers_have = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
	pthread_rwlock_t usual, shared, preferring;

	if (!make_rwlock(&usual, PTHREAD_PROCESS_PRIVATE, PTHREAD_RWLOCK_DEFAULT_NP) ||
	    !make_rwlock(&shared, PTHREAD_PROCESS_SHARED, PTHREAD_RWLOCK_DEFAULT_NP) ||
	    !make_rwlock(&preferring, PTHREAD_PROCESS_PRIVATE,
			 PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP))
		return false;
	found->rwlocks = preferring.__data.__flags == as_headers_have.__data.__flags &&
			 usual.__data.__flags == 0;
	return find_flag(&usual, &shared, sizeof(usual), &found->rwlock_shared);
}

static bool make_barrier(pthread_barrier_t *barrier, int shared)
{
	pthread_barrierattr_t attributes;

	memset(barrier, 0, sizeof(*barrier));
	return pthread_barrierattr_init(&attributes) == 0 &&
	       pthread_barrierattr_setpshared(&attributes, shared) == 0 &&
	       CALL(pthread_barrier_init)(barrier, &attributes, 1) == 0;
}

static bool find_barrier(struct tek_objects *found)
{
	pthread_barrier_t usual, shared;

	return make_barrier(&usual, PTHREAD_PROCESS_PRIVATE) &&
	       make_barrier(&shared, PTHREAD_PROCESS_SHARED) &&
	       find_flag(&usual, &shared, sizeof(usual), &found->barrier_shared);
}

static bool find_semaphore(struct tek_objects *found)
{
	sem_t usual, shared;

	memset(&usual, 0, sizeof(usual));
	memset(&shared, 0, sizeof(shared));
	return CALL(sem_init)(&usual, 0, 1) == 0 && CALL(sem_init)(&shared, 1, 1) == 0 &&
	       find_flag(&usual, &shared, sizeof(usual), &found->semaphore_shared);
}

static bool make_mutex(pthread_mutex_t *mutex, int type, int shared)
{
	pthread_mutexattr_t attributes;

	memset(mutex, 0, sizeof(*mutex));
	if (pthread_mutexattr_init(&attributes) || pthread_mutexattr_settype(&attributes, type) ||
	    pthread_mutexattr_setpshared(&attributes, shared))
		return false;
	return CALL(pthread_mutex_init)(mutex, &attributes) == 0;
}

/*
 * Static initialisers in programs fix the place of the type, so it cannot move.  The flag is in
 * the same word.
 */
static bool find_mutex(struct tek_objects *found)
{
	static const int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE,
				    PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_ADAPTIVE_NP};
	enum { TYPE = 3, SHARED = 128, KNOWN = TYPE | SHARED };
	pthread_mutex_t mutex;

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		if (!make_mutex(&mutex, types[i], PTHREAD_PROCESS_PRIVATE) ||
		    (mutex.__data.__kind & KNOWN) != types[i])
			return false;
		if (!make_mutex(&mutex, types[i], PTHREAD_PROCESS_SHARED) ||
		    (mutex.__data.__kind & KNOWN) != (types[i] | SHARED))
			return false;
	}
	found->mutexes = true;
	return true;
}

static bool find_spinlock(struct tek_objects *found)
{
	pthread_spinlock_t lock = 0;

	if (CALL(pthread_spin_init)(&lock, PTHREAD_PROCESS_SHARED))
		return false;
	found->spinlock_free = (unsigned int)lock;
	if (CALL(pthread_spin_trylock)(&lock))
		return false;
	found->spinlock_locked = (unsigned int)lock;
	return true;
}

static void nothing(void) {}

static bool find_once(struct tek_objects *found)
{
	pthread_once_t control = PTHREAD_ONCE_INIT;

	found->once = control == 0 && CALL(pthread_once)(&control, nothing) == 0 &&
		      control == TEK_OBJECTS_ONCE_DONE;
	return found->once;
}

void tek__objects_find(struct tek_objects *objects, void (*keep_fitting)(struct tek_objects *found))
{
	struct tek_objects found = {.known = false};

	/* Each result counts by itself: one that fails leaves its members "not found". */
	find_cond(&found);
	find_rwlock(&found);
	find_barrier(&found);
	find_semaphore(&found);
	find_mutex(&found);
	find_spinlock(&found);
	find_once(&found);
	keep_fitting(&found);
	*objects = found;
	atomic_store_explicit(&objects->known, true, memory_order_release);
}
