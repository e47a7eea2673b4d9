/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* libtek-sync-native.so: the functions of tek/lock.h. */
#include "base/export.h"
#include "sync/forked_lock.h"
#include "sync/waiting.h"

#include <tek/lock.h>

/* The engine of user-level threads, where one is preloaded. */
extern const struct tek_sync_host tek_sync_host __attribute__((weak));

__attribute__((constructor)) static void start(void)
{
	tek_sync__host = &tek_sync_host;
}

/* Both are two words of the same size; the kind's functions alone read and write them. */
static struct tek_lock *inner(tek_lock_t *lock)
{
	_Static_assert(sizeof(lock->words_) == sizeof(struct tek_lock) &&
			       _Alignof(uintptr_t) == _Alignof(struct tek_lock),
		       "one fits into the other");
	return (struct tek_lock *)lock->words_;
}

static atomic_uint *process_of(tek_lock_t *lock)
{
	_Static_assert(sizeof(lock->process_) == sizeof(atomic_uint), "it is one");
	return (atomic_uint *)&lock->process_;
}

static const struct tek_lock_kind *kind_of(const tek_lock_t *lock)
{
	return lock->kind_ ? lock->kind_ : &tek_sync__lock_auto;
}

TEK_EXPORT int tek_lock_init(tek_lock_t *lock, const char *kind)
{
	const struct tek_lock_kind *named = kind ? tek_sync__lock_kind_named(kind)
						 : &tek_sync__lock_auto;

	if (!named)
		return EINVAL;
	*lock = (tek_lock_t){.kind_ = named};
	return 0;
}

TEK_EXPORT void tek_lock_lock(tek_lock_t *lock)
{
	tek_sync__forked_lock(inner(lock), process_of(lock), kind_of(lock));
}

TEK_EXPORT int tek_lock_trylock(tek_lock_t *lock)
{
	return tek_sync__forked_lock_try(inner(lock), process_of(lock), kind_of(lock)) ? 0 : EBUSY;
}

TEK_EXPORT int tek_lock_timedlock(tek_lock_t *lock, clockid_t clock, const struct timespec *until)
{
	if (!tek__clock_is_known(clock))
		return EINVAL;
	return tek_sync__forked_lock_until(inner(lock), process_of(lock), kind_of(lock),
					   (struct tek_until){clock, until});
}

TEK_EXPORT void tek_lock_unlock(tek_lock_t *lock)
{
	tek_sync__forked_unlock(inner(lock), process_of(lock), kind_of(lock));
}

TEK_EXPORT const char *tek_lock_kind_of(const tek_lock_t *lock)
{
	return kind_of(lock)->name;
}

/* NULL: there is none of that number. */
static const struct tek_lock_kind *numbered(unsigned int number)
{
	unsigned int count = 0;

	while (count < number && tek_sync__lock_kinds[count])
		count++;
	return tek_sync__lock_kinds[count];
}

TEK_EXPORT const char *tek_lock_kind_name(unsigned int number)
{
	const struct tek_lock_kind *kind = numbered(number);
	return kind ? kind->name : NULL;
}

TEK_EXPORT const char *tek_lock_kind_about(unsigned int number)
{
	return tek_sync__lock_kind_about(number);
}

TEK_EXPORT void tek_lock_auto_changes(unsigned long *to_sleeping, unsigned long *to_spinning)
{
	struct tek_lock_auto_counts counts;

	tek_sync__lock_auto_counts(&counts);
	if (to_sleeping)
		*to_sleeping = counts.to_park;
	if (to_spinning)
		*to_spinning = counts.to_spin;
}
