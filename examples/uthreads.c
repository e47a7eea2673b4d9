/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * uthreads - a thousand user-level threads that add their numbers.
 *
 * They are threads of TEK's engine and not of the kernel, so creating one takes nanoseconds.
 */
#include <stdio.h>
#include <string.h>
#include <tek/uthread.h>

#define THREADS 1000

static tek_uthread_mutex_t mutex; /* of zeros: ready for use */
static long sum;

static void *add(void *number)
{
	tek_uthread_mutex_lock(&mutex);
	sum += *(int *)number;
	tek_uthread_mutex_unlock(&mutex);
	return NULL;
}

int main(void)
{
	static tek_uthread_t threads[THREADS];
	static int numbers[THREADS];
	const char *wrong = NULL;
	int error = tek_uthread_start("workers=1,sched=rr", &wrong);

	for (int i = 0; i < THREADS && !error; i++) {
		numbers[i] = i;
		error = tek_uthread_create(&threads[i], NULL, add, &numbers[i]);
	}
	if (error) {
		fprintf(stderr, "uthreads: %s\n", wrong ? wrong : strerror(error));
		return 1;
	}
	for (int i = 0; i < THREADS; i++)
		tek_uthread_join(threads[i], NULL);
	printf("sum of %d threads: %ld\n", THREADS, sum);
	return 0;
}
