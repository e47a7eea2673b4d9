/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/events.h"

#include "uthread/events_set.h"
#include "uthread/events_table.h"
#include "uthread/hidden.h"
#include "uthread/wait.h"
#include "uthread/worker.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

static_assert(POLLIN == EPOLLIN && POLLPRI == EPOLLPRI && POLLOUT == EPOLLOUT &&
		      POLLERR == EPOLLERR && POLLHUP == EPOLLHUP && POLLRDHUP == EPOLLRDHUP,
	      "epoll(7) says it as poll(2) does");

/* Events that are always reported. */
#define ALWAYS ((uint32_t)(EPOLLERR | EPOLLHUP))
/* So many files need no memory but the stack. */
#define FEW_FILES 16
#define EVENTS_AT_ONCE 64

/* The number of threads that wait for files. */
static atomic_uint waiting;

int tek_ut__events_start(void)
{
	return -tek_ut__event_set_start();
}

bool tek_ut__events_any(void)
{
	return atomic_load_explicit(&waiting, memory_order_relaxed) != 0;
}

static struct tek_interest *first_of(struct tek_file *entry)
{
	return atomic_load_explicit(&entry->first, memory_order_relaxed);
}

/* Under the lock: the kernel has to report the events that the waiters want. 0 or -errno. */
static int arm(struct tek_file *entry, int file)
{
	uint32_t events = 0;

	for (struct tek_interest *one = first_of(entry); one; one = one->next)
		events |= one->events;
	int result = tek_ut__event_set_arm(
		file, events, atomic_load_explicit(&entry->registered, memory_order_relaxed));
	if (result == 0)
		atomic_store_explicit(&entry->registered, true, memory_order_relaxed);
	return result;
}

static int add(int file, struct tek_interest *interest)
{
	struct tek_file *entry = tek_ut__file_find(file);

	tek_ut__spin_lock(&entry->lock);
	tek_ut__file_add(entry, interest);
	int result = arm(entry, file);
	if (result < 0)
		tek_ut__file_remove(entry, interest);
	tek_ut__spin_unlock(&entry->lock);
	return result;
}

static void take_out(int file, struct tek_interest *interest)
{
	struct tek_file *entry = tek_ut__file_find(file);

	tek_ut__spin_lock(&entry->lock);
	tek_ut__file_remove(entry, interest);
	tek_ut__spin_unlock(&entry->lock);
}

/* All are in their lists: deferred. */
static int wait_for_them(struct tek_waiter *waiter, const struct timespec *deadline)
{
	/* In the handler of a tick, or idle, a worker polls events while this is not 0. */
	atomic_fetch_add_explicit(&waiting, 1, memory_order_relaxed);
	enum tek_wake how = tek_ut__wait_interruptible(waiter, deadline, TEK_WAITS_FILE);
	atomic_fetch_sub_explicit(&waiting, 1, memory_order_relaxed);

	return how == TEK_WOKEN ? 0 : how == TEK_TIMED_OUT ? -ETIMEDOUT : -EINTR;
}

static struct tek_interest interest_of(struct tek_waiter *waiter, short events, bool takes)
{
	return (struct tek_interest){.waiter = waiter,
				     .events = (uint32_t)(unsigned short)events & ~ALWAYS,
				     .takes = takes};
}

int tek_ut__events_wait(int file, short events, const struct timespec *deadline)
{
	struct tek_waiter waiter;

	if (file < 0)
		return -EBADF;
	if (tek_ut__hidden_borrowed())
		return -EDEADLK;
	if (!tek_ut__file_make(file))
		return -ENOMEM;

	struct tek_interest interest = interest_of(&waiter, events, true);
	tek_ut__enter();
	tek_ut__waiter_init(&waiter);
	int result = add(file, &interest);
	if (result == 0) {
		result = wait_for_them(&waiter, deadline);
		/*
		 * The waking thread removes it before, and releases the lock after: the interest is
		 * not read.
		 */
		if (result != 0)
			take_out(file, &interest);
	}
	tek_ut__leave();
	return result;
}

/*
 * Deferred from the first to the last: nothing may end the thread while lists point to its stack.
 */
static int wait_for_any(const struct pollfd *files, nfds_t count, struct tek_interest *interests,
			const struct timespec *deadline)
{
	struct tek_waiter waiter;
	int result = 0;
	nfds_t added;

	tek_ut__enter();
	tek_ut__waiter_init(&waiter);
	for (added = 0; added < count && result == 0; added++) {
		interests[added].listed = false;
		if (files[added].fd < 0)
			continue;
		interests[added] = interest_of(&waiter, files[added].events, false);
		result = add(files[added].fd, &interests[added]);
		if (result == -EPERM)
			result =
				0; /* a regular file that is not ready for this: it will never be */
	}
	if (result == 0)
		result = wait_for_them(&waiter, deadline);
	for (nfds_t i = 0; i < added; i++) {
		if (files[i].fd >= 0)
			take_out(files[i].fd, &interests[i]);
	}
	tek_ut__leave();
	return result;
}

int tek_ut__events_wait_any(const struct pollfd *files, nfds_t count,
			    const struct timespec *deadline)
{
	struct tek_interest few[FEW_FILES], *interests = few;

	if (tek_ut__hidden_borrowed())
		return -EDEADLK;
	for (nfds_t i = 0; i < count; i++) {
		if (files[i].fd >= 0 && !tek_ut__file_make(files[i].fd))
			return -ENOMEM;
	}
	/* Not malloc(), as in events_table.c. */
	if (count > FEW_FILES)
		interests = mmap(NULL, count * sizeof(*interests), PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (interests == MAP_FAILED)
		return -ENOMEM;
	int result = wait_for_any(files, count, interests, deadline);
	if (interests != few)
		munmap(interests, count * sizeof(*interests));
	return result;
}

int tek_ut__events_poll(struct pollfd *files, nfds_t count, const struct timespec *deadline)
{
	for (;;) {
		int ready = tek_ut__event_set_poll(files, count);
		if (ready == -EINTR)
			continue; /* a signal arrived at this moment: no answer */
		if (ready != 0)
			return ready;
		int result = tek_ut__events_wait_any(files, count, deadline);
		if (result == -ETIMEDOUT)
			return 0;
		/* The next poll reports a file that was closed meanwhile. */
		if (result != 0 && result != -EBADF)
			return result;
	}
}

/* Under the lock: `events` have arrived. Waiters that consume are woken one by one. */
static void wake_those(struct tek_file *entry, uint32_t events)
{
	struct tek_interest *next;
	uint32_t given = 0;

	for (struct tek_interest *one = first_of(entry); one; one = next) {
		uint32_t hit = events & (one->events | ALWAYS);
		bool takes = one->takes && !(hit & ALWAYS);

		next = one->next;
		if (!hit || (takes && !(hit & ~given)))
			continue;
		tek_ut__file_remove(entry, one);
		/*
		 * From here on *one may be gone, if another thread has woken its thread: but then
		 * the woken thread waits for the lock.
		 */
		if (tek_ut__wake(one->waiter, TEK_WOKEN) && takes)
			given |= hit;
	}
}

static void events_came(int file, uint32_t events)
{
	struct tek_file *entry = tek_ut__file_find(file);

	if (!entry || !first_of(entry))
		return; /* the waiter has given up; it is disarmed by the event */
	tek_ut__spin_lock(&entry->lock);
	wake_those(entry, events);
	if (first_of(entry) && arm(entry, file) < 0)
		wake_those(entry, ALWAYS); /* closed without notice to the engine */
	tek_ut__spin_unlock(&entry->lock);
}

/* The set is a new one, which has none of the awaited files. */
__attribute__((cold, noinline)) static void arm_all(void)
{
	for (int file = tek_ut__file_from(0); file >= 0; file = tek_ut__file_from(file + 1)) {
		struct tek_file *entry = tek_ut__file_find(file);

		tek_ut__spin_lock(&entry->lock);
		if (first_of(entry) && arm(entry, file) < 0)
			wake_those(entry, ALWAYS);
		tek_ut__spin_unlock(&entry->lock);
	}
}

void tek_ut__events_run(uint64_t ns)
{
	struct epoll_event events[EVENTS_AT_ONCE];

	if (tek_ut__event_set_renewed())
		arm_all();
	int count = tek_ut__event_set_wait(events, EVENTS_AT_ONCE, ns);

	for (int i = 0; i < count; i++)
		events_came((int)events[i].data.u64, events[i].events);
}

void tek_ut__events_stop_waiting(void)
{
	tek_ut__event_set_stop_waiting();
}

static struct tek_file *if_used(int file)
{
	struct tek_file *entry = tek_ut__file_find(file);

	if (!entry)
		return NULL;
	if (!first_of(entry) && !atomic_load_explicit(&entry->registered, memory_order_relaxed))
		return NULL;
	/* A file that a child of vfork(2) closes stays open here. */
	return tek_ut__hidden_borrowed() ? NULL : entry;
}

void tek_ut__events_closing(int file)
{
	struct tek_file *entry = if_used(file);

	if (!entry)
		return;
	tek_ut__enter();
	tek_ut__spin_lock(&entry->lock);
	/*
	 * It may stay open under another number, or in another process, and then so would the set's
	 * entry.
	 */
	if (atomic_exchange_explicit(&entry->registered, false, memory_order_relaxed))
		tek_ut__event_set_remove(file);
	atomic_store_explicit(&entry->claimed, false, memory_order_relaxed);
	wake_those(entry, ALWAYS);
	tek_ut__spin_unlock(&entry->lock);
	tek_ut__leave();
}

void tek_ut__events_closed(int file)
{
	struct tek_file *entry = tek_ut__file_find(file);

	/* A waiter that began between closing() and close(2) would not be woken otherwise. */
	if (!entry || !first_of(entry) || tek_ut__hidden_borrowed())
		return;
	tek_ut__enter();
	tek_ut__spin_lock(&entry->lock);
	wake_those(entry, ALWAYS);
	tek_ut__spin_unlock(&entry->lock);
	tek_ut__leave();
}

bool tek_ut__events_claim(int file)
{
	struct tek_file *entry = tek_ut__file_make(file);

	return !entry || !atomic_exchange_explicit(&entry->claimed, true, memory_order_acquire);
}

void tek_ut__events_disclaim(int file)
{
	struct tek_file *entry = tek_ut__file_find(file);

	if (entry)
		atomic_store_explicit(&entry->claimed, false, memory_order_release);
}

void tek_ut__events_after_fork(void)
{
	atomic_store(&waiting, 0);
	tek_ut__files_forget();
	tek_ut__event_set_after_fork();
}
