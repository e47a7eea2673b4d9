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
uint32_t *tek__profile_process_word = &before_start;

/* Where the kernel cannot clear a page (before Linux 4.14, an emulator). */
static void clear(void)
{
	*tek__profile_process_word = 0;
}

static void forked(void)
{
	tek__profile_process_forked();
}

void tek__profile_process_start(void)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *word = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (word != MAP_FAILED && madvise(word, page, MADV_WIPEONFORK) == 0) {
		*(uint32_t *)word = 1;
		tek__profile_process_word = word;
	} else {
		pthread_atfork(NULL, NULL, clear);
	}
	pthread_atfork(NULL, NULL, forked);
}

void tek__profile_process_forked(void)
{
	if (tek__profile_process_is_known())
		return;
	/* Calls meanwhile are not counted, and do not come here again. */
	memset(&tek__profile_self, 0, sizeof(tek__profile_self));
	tek__profile_self.is_over = true;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(tek__profile_process_word, 1, __ATOMIC_RELAXED);
	memset(tek__profile_places, 0, sizeof(tek__profile_places));
	tek__profile_file_forked();
	if (tek__profile_file)
		tek__profile_thread_begin_first();
}
