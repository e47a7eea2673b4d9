/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Imitates a C library with another layout of pthread objects.  The linker wraps
 * tek__c_library_function() (-Wl,--wrap), which then returns functions of this file.  The
 * environment variable UNFIT names the objects: "cond", "rwlock", "barrier", "semaphore", "mutex".
 */
#ifndef TESTS_UNFIT_H
#define TESTS_UNFIT_H

#include "support.h"

#include <semaphore.h>

void *__real_tek__c_library_function(const char *name);
void *__wrap_tek__c_library_function(const char *name);

/* The flag "process-shared" is in the first byte, where TEK's objects have their state. */
static int unfit_cond_init(pthread_cond_t *object, const pthread_condattr_t *attributes)
{
	int shared = 0;

	pthread_condattr_getpshared(attributes, &shared);
	*(unsigned char *)object = shared ? 1 : 0;
	return 0;
}

static int unfit_rwlock_init(pthread_rwlock_t *object, const pthread_rwlockattr_t *attributes)
{
	int shared = 0, kind = 0;

	pthread_rwlockattr_getpshared(attributes, &shared);
	pthread_rwlockattr_getkind_np(attributes, &kind);
	*(unsigned char *)object = shared ? 1 : 0;
	object->__data.__flags = kind;
	return 0;
}

static int unfit_barrier_init(pthread_barrier_t *object, const pthread_barrierattr_t *attributes,
			      unsigned int count)
{
	int shared = 0;

	(void)count;
	pthread_barrierattr_getpshared(attributes, &shared);
	*(unsigned char *)object = shared ? 1 : 0;
	return 0;
}

/* No flag: shared and private semaphores are equal. */
static int unfit_sem_init(sem_t *object, int shared, unsigned int value)
{
	(void)shared;
	*(unsigned int *)object = value;
	return 0;
}

/* The type is in another place. */
static int unfit_mutex_init(pthread_mutex_t *object, const pthread_mutexattr_t *attributes)
{
	int type = 0;

	pthread_mutexattr_gettype(attributes, &type);
	*(int *)object = type;
	return 0;
}

void *__wrap_tek__c_library_function(const char *name)
{
	static const struct {
		const char *object, *name;
		void *function;
	} unfit[] = {
		{"cond", "pthread_cond_init", (void *)unfit_cond_init},
		{"rwlock", "pthread_rwlock_init", (void *)unfit_rwlock_init},
		{"barrier", "pthread_barrier_init", (void *)unfit_barrier_init},
		{"semaphore", "sem_init", (void *)unfit_sem_init},
		{"mutex", "pthread_mutex_init", (void *)unfit_mutex_init},
	};
	const char *object = getenv("UNFIT");

	for (size_t i = 0; object && i < sizeof(unfit) / sizeof(unfit[0]); i++)
		if (strcmp(object, unfit[i].object) == 0 && strcmp(name, unfit[i].name) == 0)
			return unfit[i].function;
	return __real_tek__c_library_function(name);
}

/*
 * Runs this program with the argument "use" and such a C library.  Stores its standard output and
 * errors in `output`.  Returns its exit status.
 */
static inline int use_with(const char *object, const char *variables, char *output, size_t bytes)
{
	char command[PATH_MAX + 512], path[PATH_MAX];
	const ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
	size_t filled = 0, got;

	assert_true(length > 0);
	path[length] = '\0';
	snprintf(command, sizeof(command), "UNFIT=%s %s timeout 60 %s use 2>&1", object, variables,
		 path);
	FILE *stream = popen(command, "r");
	assert_non_null(stream);
	while ((got = fread(output + filled, 1, bytes - 1 - filled, stream)) > 0)
		filled += got;
	output[filled] = '\0';
	return WEXITSTATUS(pclose(stream));
}

/* Threads that meet MEETINGS times, by each kind of object. */
static struct {
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	pthread_barrier_t barrier;
	pthread_rwlock_t rwlock;
	int count;
} meeting = {
	.mutex = PTHREAD_MUTEX_INITIALIZER,
	.cond = PTHREAD_COND_INITIALIZER,
	.rwlock = PTHREAD_RWLOCK_INITIALIZER,
};

enum { MEETERS = 3, MEETINGS = 200 };

static void *meet(void *argument)
{
	for (int i = 1; i <= MEETINGS; i++) {
		pthread_rwlock_wrlock(&meeting.rwlock);
		pthread_rwlock_unlock(&meeting.rwlock);
		pthread_mutex_lock(&meeting.mutex);
		meeting.count++;
		while (meeting.count < i * MEETERS)
			pthread_cond_wait(&meeting.cond, &meeting.mutex);
		pthread_cond_broadcast(&meeting.cond);
		pthread_mutex_unlock(&meeting.mutex);
		pthread_barrier_wait(&meeting.barrier);
	}
	return argument;
}

static inline void use_objects(void)
{
	pthread_t threads[MEETERS];

	pthread_barrier_init(&meeting.barrier, NULL, MEETERS);
	for (int i = 0; i < MEETERS; i++)
		pthread_create(&threads[i], NULL, meet, NULL);
	for (int i = 0; i < MEETERS; i++)
		pthread_join(threads[i], NULL);
	printf("met %d times\n", meeting.count / MEETERS);
	fflush(stdout);
}

#endif
