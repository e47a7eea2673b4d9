/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "inherit/mutex.h"

#include "base/definition.h"
#include "base/real.h"
#include "base/user_memory.h"
#include "inherit/cond.h"
#include "inherit/inversion.h"
#include "inherit/lock_wait.h"
#include "inherit/rwlock.h"
#include "inherit/waits.h"
#include "mediate/rules.h"

#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char always = 1;
const char *tek__mutex_single_threaded = &always;
bool tek__inherit_works;
static bool is_possible;
unsigned int tek__mutex_detours = 1;

#ifdef __GLIBC__
enum { FREE = 0, LOCKED = 1 };

static bool has_values(const pthread_mutex_t *mutex, int kind, int lock, pid_t owner)
{
	return mutex->__data.__kind == kind && mutex->__data.__lock == lock &&
	       mutex->__data.__owner == owner && mutex->__data.__nusers == (owner ? 1u : 0u);
}

/* Whether the C library keeps its data where this file was compiled to look for them. */
static bool layout_is_known(void)
{
	pthread_mutex_t normal = PTHREAD_MUTEX_INITIALIZER;
	pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
	const pid_t self = tek__gettid();
	bool known = true;

	tek__c_library.pthread_mutex_lock(&normal);
	tek__c_library.pthread_mutex_lock(&recursive);
	known = has_values(&normal, PTHREAD_MUTEX_TIMED_NP, LOCKED, self) &&
		has_values(&recursive, PTHREAD_MUTEX_RECURSIVE_NP, LOCKED, self);
	tek__c_library.pthread_mutex_unlock(&normal);
	tek__c_library.pthread_mutex_unlock(&recursive);
	return known && has_values(&normal, PTHREAD_MUTEX_TIMED_NP, FREE, 0) &&
	       has_values(&recursive, PTHREAD_MUTEX_RECURSIVE_NP, FREE, 0);
}
#endif

/*
 * Another library wraps the functions of the C library. It may have locks of its own, as
 * libtek-sync.so, which have no owner where the C library has it.
 */
static bool is_wrapped(void)
{
#define IS_WRAPPED(name) (tek__real.name != tek__c_library.name)
	return IS_WRAPPED(pthread_mutex_lock) || IS_WRAPPED(pthread_mutex_unlock) ||
	       IS_WRAPPED(pthread_rwlock_wrlock) || IS_WRAPPED(pthread_rwlock_unlock) ||
	       IS_WRAPPED(pthread_cond_wait) || IS_WRAPPED(pthread_cond_signal);
#undef IS_WRAPPED
}

/* A tool of valgrind sees calls of the C library only. */
static bool is_under_valgrind(void)
{
	const char *preloaded = getenv("LD_PRELOAD");

	return preloaded && strstr(preloaded, "/vgpreload_");
}

void tek__inherit_begin(void)
{
	__atomic_store_n(&tek__inherit_works, is_possible, __ATOMIC_RELAXED);
}

void tek__inherit_end(void)
{
	is_possible = false; /* it does not begin again either */
	__atomic_store_n(&tek__inherit_works, false, __ATOMIC_RELAXED);
}

void tek__inherit_start(bool is_on)
{
#ifdef __GLIBC__
	struct tek_definition single;

	if (is_wrapped() || !tek__real.pthread_mutex_clocklock || !layout_is_known())
		return;
	is_possible = is_on && tek__rwlock_layout_is_known();
	if (tek__rules_any)
		tek__inherit_begin();
	if (is_under_valgrind() ||
	    !tek__defined_in(tek__c_library_file(), "__libc_single_threaded", &single))
		return;
	tek__mutex_single_threaded = single.address;
	__atomic_store_n(&tek__mutex_detours, 0, __ATOMIC_RELEASE);
#else
	(void)is_on;
#endif
}

void tek__mutex_forget(void)
{
	tek__mutex_detours = tek__mutex_single_threaded == &always;
}

pid_t tek__mutex_owner(const void *mutex, bool is_mine)
{
#ifdef __GLIBC__
	const int *owner = &((const pthread_mutex_t *)mutex)->__data.__owner;
	int tid;

	if (is_mine)
		return __atomic_load_n(owner, __ATOMIC_RELAXED);
	return tek__user_copy_surely(&tid, owner, sizeof(tid)) ? tid : 0;
#else
	(void)mutex, (void)is_mine;
	return 0;
#endif
}

__attribute__((noinline)) int tek__mutex_wake(pthread_mutex_t *mutex)
{
#ifdef __GLIBC__
	syscall(SYS_futex, &mutex->__data.__lock, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
#else
	(void)mutex;
#endif
	return 0;
}

static int lock(void *mutex)
{
	return tek__real.pthread_mutex_lock(mutex);
}

static int try(void *mutex)
{
	return tek__real.pthread_mutex_trylock(mutex);
}

static int lock_until(void *mutex, clockid_t clock, const struct timespec *at)
{
	/* Another library may wrap the older function only. */
	if (clock == CLOCK_REALTIME)
		return tek__real.pthread_mutex_timedlock(mutex, at);
	return tek__real.pthread_mutex_clocklock(mutex, clock, at);
}

static const struct tek_lock_calls calls = {lock, try, lock_until};

bool tek__mutex_is_inherited(const pthread_mutex_t *mutex)
{
#ifdef __GLIBC__
	enum { ROBUST = 0x10, INHERIT = 0x20, PROTECT = 0x40, SHARED = 0x80 };
	const int kind = mutex->__data.__kind;

	/*
	 * Another process can write any owner into a mutex that it shares. The C library marks
	 * each robust one as shared.
	 */
	return !(kind & (INHERIT | PROTECT)) && (kind & (ROBUST | SHARED)) != SHARED;
#else
	(void)mutex;
	return false;
#endif
}

static int lock_and_lift(pthread_mutex_t *mutex, struct tek_until until, uintptr_t call)
{
	tek__gettid(); /* learns it, for the next call */
	if (!tek__thread_mine || !tek__mutex_is_inherited(mutex))
		return tek__lock_plainly(&calls, mutex, until);
	int error = try(mutex);
	if (error != EBUSY)
		return error;
	return tek__lock_wait(&calls, mutex, tek__waits_for(TEK_WAITS_FOR_MUTEX, mutex), until,
			      call);
}

__attribute__((noinline)) int tek__mutex_lock(pthread_mutex_t *mutex, struct tek_until until,
					      uintptr_t call)
{
	int error = lock_and_lift(mutex, until, call);

	if ((!error || error == EOWNERDEAD) && __atomic_load_n(&tek__cond_marked, __ATOMIC_RELAXED))
		tek__cond_locked(mutex);
	return error;
}

int tek__mutex_unlock_lifted(pthread_mutex_t *mutex, uintptr_t call)
{
	tek__inversion_releases(mutex, call);
	int error = tek__real.pthread_mutex_unlock(mutex);

	if (!error)
		tek__waits_changed();
	return error;
}
