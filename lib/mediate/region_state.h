/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the parts of the Fast Region share: region.c adds and removes members, region_marks.c has
 * the marked threads, region_ban.c bans and the return from them, region_daemon.c the decisions of
 * tekd. Callers of the region include mediate/region.h.
 *
 * All of it needs the lock (threads/process.h), in the child of a fork apart.
 */
#ifndef TEK_MEDIATE_REGION_STATE_H
#define TEK_MEDIATE_REGION_STATE_H

#include "threads/thread.h"

struct tek_region_state {
	struct tek_thread *first; /* the members: tek__region_first() */
	unsigned int members;
	unsigned int marked;    /* marked threads, Fast or not */
	unsigned int returning; /* threads that a rule will take back */
};

extern struct tek_region_state tek__region;

/* As tek__region_ask(), for callers that have received tekd's reports. */
int tek__region_add(struct tek_thread *thread, unsigned int reason, int nice);

/* It loses all its reasons, by a decision of this library or of tekd. */
void tek__region_put_out(struct tek_thread *thread);

/* Requests or marks in a group have changed. */
void tek__region_settle_group(unsigned int group);

/* Whether a rule takes it back when its ban is over. */
void tek__region_set_returns(struct tek_member *member, bool returns);

/* Puts it out because of its budget, for longer each time. Returns for how long. */
uint64_t tek__region_ban(struct tek_thread *thread, uint64_t window_ns);

#endif
