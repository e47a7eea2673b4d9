/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * spin_holder: one thread holds a spin lock and waits for another one, which spins for it.  Where
 * both are SCHED_FIFO of one priority on the same CPU, the holder gets the CPU back only if the
 * spinning thread yields it.
 *
 * It ends within seconds in any case: by a timer, or by the kernel if a thread runs for a second
 * under a real-time policy (RLIMIT_RTTIME).  Prints "done" and the number of SCHED_FIFO threads.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_spinlock_t lock;
static sem_t is_held, about_to_spin;
static int fifo;

static void count(void)
{
	if ((syscall(SYS_sched_getscheduler, 0) & ~SCHED_RESET_ON_FORK) == SCHED_FIFO)
		__atomic_fetch_add(&fifo, 1, __ATOMIC_RELAXED);
}

static void *hold(void *unused)
{
	count();
	pthread_spin_lock(&lock);
	sem_post(&is_held);
	sem_wait(&about_to_spin);
	/* The other thread may not spin yet: it has the CPU for sure while the holder sleeps. */
	usleep(20000);
	pthread_spin_unlock(&lock);
	return unused;
}

static void *spin(void *unused)
{
	count();
	sem_wait(&is_held);
	sem_post(&about_to_spin);
	pthread_spin_lock(&lock);
	pthread_spin_unlock(&lock);
	return unused;
}

int main(void)
{
	const struct rlimit second = {.rlim_cur = 1000000, .rlim_max = 1000000};
	pthread_t threads[2];

	alarm(20);
	if (setrlimit(RLIMIT_RTTIME, &second))
		return 2;
	pthread_spin_init(&lock, PTHREAD_PROCESS_PRIVATE);
	sem_init(&is_held, 0, 0);
	sem_init(&about_to_spin, 0, 0);
	pthread_create(&threads[0], NULL, hold, NULL);
	pthread_create(&threads[1], NULL, spin, NULL);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	printf("done %d\n", fifo);
	return EXIT_SUCCESS;
}
