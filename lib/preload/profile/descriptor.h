/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Calls that read or write by a descriptor, which may wait for the peer at its other end. */
#ifndef TEK_PRELOAD_PROFILE_DESCRIPTOR_H
#define TEK_PRELOAD_PROFILE_DESCRIPTOR_H

#include "preload/profile/call.h"
#include "profile/descriptor.h"

/* Such a call that is under way. */
struct tek_profile_transfer {
	struct tek_profile_thread *thread; /* it is timed; NULL: it does not count, or is a wait */
	struct tek_profile_waiting waiting;
	tek_u32 part; /* of the wait; 0: it is none */
};

static inline struct tek_profile_transfer tek_prof__transfer(int fd, const void *frame)
{
	struct tek_profile_transfer transfer = {.part = tek_prof__descriptor(fd)};

	if (transfer.part)
		transfer.waiting = tek_prof__wait(transfer.part, NULL, frame);
	else
		transfer.thread = tek_prof__enter(TEK_PROFILE_FILE, frame);
	return transfer;
}

static inline void tek_prof__transferred(struct tek_profile_transfer *transfer, const void *site)
{
	if (transfer->part)
		tek_prof__waited(&transfer->waiting, transfer->part, TEK_PROFILE_SLEEP, site, NULL);
	else if (transfer->thread)
		tek_prof__leave(transfer->thread, TEK_PROFILE_FILE);
}

/* A cancelled thread does not return from it. */
static inline void tek_prof__transfer_cleanup(struct tek_profile_transfer *transfer)
{
	if (transfer->part)
		tek_prof__wait_cleanup(&transfer->waiting);
}

#define TEK_PROFILE_TRANSFER \
	struct tek_profile_transfer transfer_ __attribute__((cleanup(tek_prof__transfer_cleanup)))

#endif
