/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Two threads, touch and logger, that wait for each other's mutex until standard input ends. */
#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t all_hold;

static void *lock_two(const char *name, pthread_mutex_t *holds, pthread_mutex_t *wants)
{
	pthread_setname_np(pthread_self(), name);
	pthread_mutex_lock(holds);
	pthread_barrier_wait(&all_hold);
	pthread_mutex_lock(wants);
	return NULL;
}

static void *touch(void *unused)
{
	(void)unused;
	return lock_two("touch", &first, &second);
}

static void *logger(void *unused)
{
	(void)unused;
	return lock_two("logger", &second, &first);
}

int main(void)
{
	pthread_t thread;
	char byte;

	pthread_barrier_init(&all_hold, NULL, 2);
	pthread_create(&thread, NULL, touch, NULL);
	pthread_create(&thread, NULL, logger, NULL);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	_exit(0);
}
