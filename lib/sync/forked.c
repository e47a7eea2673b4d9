/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sync/forked.h"

#include "sync/waiting.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

static atomic_uint before_start = TEK_PROCESS_FIRST;
atomic_uint *tek_sync__process_word = &before_start;

/* A number that no forefather had. */
unsigned int tek_sync__process_ask(void)
{
	static atomic_uint last = TEK_PROCESS_FIRST;
	const unsigned int next = atomic_fetch_add_explicit(&last, TEK_PROCESS_FIRST,
							    memory_order_relaxed) +
				  TEK_PROCESS_FIRST;
	unsigned int number = 0;

	return atomic_compare_exchange_strong_explicit(tek_sync__process_word, &number, next,
						       memory_order_relaxed, memory_order_relaxed)
		       ? next
		       : number;
}

bool tek_sync__process_claim(atomic_uint *process)
{
	const unsigned int mine = tek_sync__process();
	struct tek_spinning spinning = {0};
	unsigned int seen = atomic_load_explicit(process, memory_order_acquire);

	for (;;) {
		if (seen == mine)
			return false;
		if (seen == (mine | TEK_PROCESS_CLAIMED)) {
			tek_sync__spin(&spinning);
			seen = atomic_load_explicit(process, memory_order_acquire);
		} else if (atomic_compare_exchange_weak_explicit(
				   process, &seen, mine | TEK_PROCESS_CLAIMED, memory_order_acquire,
				   memory_order_acquire)) {
			return true;
		}
	}
}

void tek_sync__process_claimed(atomic_uint *process)
{
	atomic_store_explicit(process, tek_sync__process(), memory_order_release);
}

/* Where the kernel cannot clear a page (before Linux 4.14, an emulator). */
static void clear(void)
{
	atomic_store_explicit(tek_sync__process_word, 0, memory_order_relaxed);
}

void tek_sync__process_start(void)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	const int before = errno;

	if (tek_sync__process_word != &before_start)
		return;
	atomic_uint *word = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				 -1, 0);
	if (word == MAP_FAILED || madvise(word, page, MADV_WIPEONFORK) != 0) {
		pthread_atfork(NULL, NULL, clear);
	} else {
		atomic_store_explicit(word, TEK_PROCESS_FIRST, memory_order_relaxed);
		tek_sync__process_word = word;
	}
	errno = before;
}

/*
 * A function of its own: the link-time optimizer of gcc 12 loses a constructor that is called by
 * name, too.
 */
__attribute__((constructor)) static void start(void)
{
	tek_sync__process_start();
}
