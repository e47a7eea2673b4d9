/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The tortured process: `--process FD`. It runs under TEK, and shares the memory of that descriptor
 * with its supervisor, which gives it one round after another.
 */
#include "process.h"

#include "worker.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#define TEK_OPTIONAL
#include <tek/tek.h>

enum { SAMPLE_US = 500, WAKE_MS = 1, BUDGET_WINDOW_NS = 1000000000, SAMPLER_PRIORITY = 70 };

struct shared *shared;
struct slot slots[SLOTS];
struct locks locks;
_Atomic uint32_t threads_at_work, is_round_over;
const char *own_path;
int shared_fd;

static pthread_mutex_t *shared_mutexes;
static _Atomic bool samples;

static void init_mutex(int number, int type, bool is_robust, bool is_shared)
{
	pthread_mutexattr_t attr;
	pthread_mutex_t *mutex = is_shared ? &shared_mutexes[number] : &locks.own[number];

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, type);
	if (is_robust)
		pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	if (is_shared)
		pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	memset(mutex, 0, sizeof(*mutex));
	pthread_mutex_init(mutex, &attr);
	pthread_mutexattr_destroy(&attr);
	locks.mutexes[number] = mutex;
}

/* All locks are new in each round: a thread may have ended with a fragile one. */
static void init_locks(void)
{
	init_mutex(MUTEX_NORMAL, PTHREAD_MUTEX_NORMAL, false, false);
	init_mutex(MUTEX_RECURSIVE, PTHREAD_MUTEX_RECURSIVE, false, false);
	init_mutex(MUTEX_ERRORCHECK, PTHREAD_MUTEX_ERRORCHECK, false, false);
	init_mutex(MUTEX_ADAPTIVE, PTHREAD_MUTEX_ADAPTIVE_NP, false, false);
	init_mutex(MUTEX_ROBUST, PTHREAD_MUTEX_NORMAL, true, false);
	init_mutex(MUTEX_SHARED, PTHREAD_MUTEX_NORMAL, false, true);
	init_mutex(MUTEX_SHARED_ROBUST, PTHREAD_MUTEX_NORMAL, true, true);
	init_mutex(MUTEX_FRAGILE, PTHREAD_MUTEX_NORMAL, false, false);
	for (int i = 0; i < RWLOCKS; i++)
		pthread_rwlock_init(&locks.rwlocks[i], NULL);
	for (int i = 0; i < CONDS; i++)
		pthread_cond_init(&locks.conds[i], NULL);
}

static void init_slots(void)
{
	const struct step_list *list = &shared->list;

	memset(slots, 0, sizeof(slots));
	for (unsigned int i = 0; i < SLOTS; i++) {
		slots[i].number = i;
		slots[i].joins = -1;
	}
	for (unsigned int i = 0; i < list->count; i++) {
		struct slot *slot = &slots[list->steps[i].slot];
		slot->steps[slot->step_count++] = (uint16_t)i;
	}
}

static void observe(const struct slot *slot, enum event_kind kind)
{
	struct event event = {.kind = (uint8_t)kind, .slot = (uint8_t)slot->number};

	if (slot->tid && raw_scheduling(slot->tid, &event.scheduling))
		record(shared, event);
}

/* Sees each thread at work. Its own waits are by system calls only. */
static void *sample(void *unused)
{
	const struct sched_param param = {.sched_priority = SAMPLER_PRIORITY};

	syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, &param);
	for (;; raw_sleep_us(SAMPLE_US))
		for (int i = 0; samples && i < SLOTS; i++)
			if (slots[i].state == STATE_AT_WORK || slots[i].state == STATE_JOINED)
				observe(&slots[i], EVENT_SAMPLE);
	return unused;
}

static void observe_parked(void)
{
	for (int i = 0; i < SLOTS; i++)
		if (slots[i].state == STATE_PARKED)
			observe(&slots[i], EVENT_REST);
}

static void perform_round(void)
{
	init_locks();
	init_slots();
	is_round_over = 0;
	samples = true;
	for (int i = 0; i < WORKERS; i++)
		if (slots[i].step_count)
			slot_start(&slots[i]);
	while (threads_at_work) {
		raw_sleep_us(WAKE_MS * 1000);
		for (int i = 0; i < CONDS; i++)
			pthread_cond_broadcast(&locks.conds[i]);
	}
	samples = false;
	observe_parked();
}

static void end_round(void)
{
	is_round_over = 1;
	raw_wake(&is_round_over);
	for (int i = 0; i < SLOTS; i++)
		if (slots[i].state == STATE_PARKED || slots[i].state == STATE_GONE)
			pthread_join(slots[i].handle, NULL);
	for (int i = 0; i < RWLOCKS; i++)
		pthread_rwlock_destroy(&locks.rwlocks[i]);
	for (int i = 0; i < CONDS; i++)
		pthread_cond_destroy(&locks.conds[i]);
}

static void hand_over(void)
{
	shared->next = FOR_SUPERVISOR;
	raw_wake(&shared->next);
	while (shared->next == FOR_SUPERVISOR)
		raw_wait(&shared->next, FOR_SUPERVISOR, 1000);
}

int process_main(int fd)
{
	pthread_t sampler;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	shared_fd = fd;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	shared_mutexes = mmap(NULL, sizeof(*shared_mutexes) * MUTEXES, PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED || shared_mutexes == MAP_FAILED)
		return EXIT_FAILURE;
	raw_scheduling(0, &shared->first);
	shared->may_be_critical = tek_present() ? tek_check() : ENOSYS;
	tek_set_budget(0, BUDGET_WINDOW_NS);
	if (pthread_create(&sampler, NULL, sample, NULL))
		return EXIT_FAILURE;
	for (;;) {
		hand_over();
		switch (shared->order) {
		case ORDER_ROUND:
			perform_round();
			break;
		case ORDER_REST_AGAIN:
			observe_parked();
			break;
		case ORDER_END_ROUND:
			end_round();
			break;
		default:
			_exit(EXIT_SUCCESS);
		}
	}
}

int report_main(int fd, unsigned int slot, unsigned int step)
{
	struct event event = {.kind = EVENT_BORN, .slot = (uint8_t)slot, .step = (uint16_t)step};

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (shared == MAP_FAILED || !raw_scheduling(0, &event.scheduling))
		return EXIT_FAILURE;
	record(shared, event);
	return EXIT_SUCCESS;
}
