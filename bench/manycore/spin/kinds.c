/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "kinds.h"

#include <stdlib.h>

#ifdef HAVE_CK
#include <ck_spinlock.h>
#endif

static int mutex_lock(struct spin_object *object)
{
	return pthread_mutex_lock(&object->mutex);
}

static int mutex_unlock(struct spin_object *object)
{
	return pthread_mutex_unlock(&object->mutex);
}

/* What kind pi is to be compared with. */
static void pi_init(struct spin_object *object)
{
	pthread_mutexattr_t attributes;

	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&object->mutex, &attributes);
	pthread_mutexattr_destroy(&attributes);
}

/* Zero is a locked one there. */
static void spin_init(struct spin_object *object)
{
	pthread_spin_init(&object->spin, PTHREAD_PROCESS_PRIVATE);
}

static int spin_lock(struct spin_object *object)
{
	return pthread_spin_lock(&object->spin);
}

static int spin_unlock(struct spin_object *object)
{
	return pthread_spin_unlock(&object->spin);
}

#ifdef HAVE_CK
#define CK_KIND(kind) \
	static int ck_##kind##_lock(struct spin_object *object) \
	{ \
		ck_spinlock_##kind##_lock((ck_spinlock_##kind##_t *)object); \
		return 0; \
	} \
	static int ck_##kind##_unlock(struct spin_object *object) \
	{ \
		ck_spinlock_##kind##_unlock((ck_spinlock_##kind##_t *)object); \
		return 0; \
	} \
	_Static_assert(sizeof(ck_spinlock_##kind##_t) <= sizeof(struct spin_object), "too large")

CK_KIND(fas);
CK_KIND(ticket);

/* What its own benchmark gives it. */
#define PB_ROUNDS 5

static int ck_ticket_pb_lock(struct spin_object *object)
{
	ck_spinlock_ticket_lock_pb((ck_spinlock_ticket_t *)object, PB_ROUNDS);
	return 0;
}

/* A thread has one lock here, so it needs one node. */
static _Thread_local struct ck_spinlock_mcs ck_node __attribute__((aligned(64)));

static int ck_mcs_lock(struct spin_object *object)
{
	ck_spinlock_mcs_lock((ck_spinlock_mcs_t *)object, &ck_node);
	return 0;
}

static int ck_mcs_unlock(struct spin_object *object)
{
	ck_spinlock_mcs_unlock((ck_spinlock_mcs_t *)object, &ck_node);
	return 0;
}
#endif

static const struct spin_kind rest[] = {
	{"pthread_mutex", NULL, mutex_lock, mutex_unlock},
	{"pthread_mutex_pi", pi_init, mutex_lock, mutex_unlock},
	{"pthread_spin", spin_init, spin_lock, spin_unlock},
#ifdef HAVE_CK
	{"ck-fas", NULL, ck_fas_lock, ck_fas_unlock},
	{"ck-ticket", NULL, ck_ticket_lock, ck_ticket_unlock},
	{"ck-ticket-pb", NULL, ck_ticket_pb_lock, ck_ticket_unlock},
	{"ck-mcs", NULL, ck_mcs_lock, ck_mcs_unlock},
#endif
};

unsigned int spin_kinds(const struct spin_kind **kinds)
{
	static struct spin_kind all[32];
	unsigned int count = 0;

	/* A struct tek_lock is all that ours see of the object, and stands at its beginning. */
	for (const struct tek_lock_kind *const *kind = tek_sync__lock_kinds; *kind; kind++)
		all[count++] = (struct spin_kind){
			.name = (*kind)->name,
			.lock = (int (*)(struct spin_object *))(void (*)(void))(*kind)->lock,
			.unlock = (int (*)(struct spin_object *))(void (*)(void))(*kind)->unlock,
		};
	for (unsigned int i = 0; i < sizeof(rest) / sizeof(rest[0]); i++)
		all[count++] = rest[i];
	*kinds = all;
	return count;
}
