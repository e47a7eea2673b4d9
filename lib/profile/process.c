/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/process.h"

#include "profile/file.h"
#include "profile/release.h"
#include "profile/thread.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uint32_t before_start = 1;
uint32_t *tek_prof__process_word = &before_start;

/* Where the kernel cannot clear a page (before Linux 4.14, an emulator). */
static void clear(void)
{
	*tek_prof__process_word = 0;
}

static void forked(void)
{
	tek_prof__process_forked();
}

void tek_prof__process_start(void)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *word = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (word != MAP_FAILED && madvise(word, page, MADV_WIPEONFORK) == 0) {
		*(uint32_t *)word = 1;
		tek_prof__process_word = word;
	} else {
		pthread_atfork(NULL, NULL, clear);
	}
	pthread_atfork(NULL, NULL, forked);
}

void tek_prof__process_forked(void)
{
	if (tek_prof__process_is_known())
		return;
	/* Calls meanwhile are not counted, and do not come here again. */
	memset(&tek_prof__self, 0, sizeof(tek_prof__self));
	tek_prof__self.is_over = true;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(tek_prof__process_word, 1, __ATOMIC_RELAXED);
	memset(tek_prof__places, 0, sizeof(tek_prof__places));
	tek_prof__file_forked();
	if (tek_prof__file)
		tek_prof__thread_begin_first();
}
