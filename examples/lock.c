/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * lock [KIND] - two threads that count under a lock of a chosen kind.
 *
 * libtek-sync(7) describes the kinds: auto, park, futex, mcs and more.
 */
#include <pthread.h>
#include <stdio.h>
#include <tek/lock.h>

#define ROUNDS 100000

static tek_lock_t lock; /* of zeros: free, and of kind "auto" */
static long count;

static void *work(void *unused)
{
	for (int i = 0; i < ROUNDS; i++) {
		tek_lock_lock(&lock);
		count++;
		tek_lock_unlock(&lock);
	}
	return unused;
}

int main(int argc, char **argv)
{
	const char *kind = argc > 1 ? argv[1] : "auto";
	pthread_t thread;

	if (tek_lock_init(&lock, kind)) {
		fprintf(stderr, "lock: there is no kind %s\n", kind);
		return 2;
	}
	if (pthread_create(&thread, NULL, work, NULL)) {
		fprintf(stderr, "lock: no second thread\n");
		return 1;
	}
	work(NULL);
	pthread_join(thread, NULL);
	printf("%s: counted to %ld\n", kind, count);
	return 0;
}
