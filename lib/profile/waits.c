/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/waits.h"

#include "profile/file.h"
#include "profile/thread.h"

#define WAITS_OF_A_BLOCK \
	((TEK_PROFILE_BLOCK_BYTES - sizeof(struct tek_profile_block)) / \
	 sizeof(struct tek_profile_wait))

void tek_prof__waits_add(struct tek_profile_thread *thread, const struct tek_profile_wait *wait)
{
	struct tek_profile_self *self = &tek_prof__self;
	struct tek_profile_block *block = self->block;

	if (!block || block->waits >= WAITS_OF_A_BLOCK) {
		/* It is not asked again and again for what there is not. */
		if (thread->lost_waits == 0)
			block = tek_prof__file_take_block(self->number, self->blocks);
		else
			block = NULL;
		self->block = block;
		if (!block) {
			thread->lost_waits++;
			return;
		}
		self->blocks++;
	}
	((struct tek_profile_wait *)(block + 1))[block->waits] = *wait;
	/* A concurrent reader finds the wait before it is counted. */
	__atomic_store_n(&block->waits, block->waits + 1, __ATOMIC_RELEASE);
}
