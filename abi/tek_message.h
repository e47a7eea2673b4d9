/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The daemon's socket: SOCK_SEQPACKET, a struct to a packet. $TEK_SOCKET names it, otherwise it is
 * TEK_SOCKET_PATH. Each request gets one reply, in order, with its number; NOTICEs come unasked,
 * between them. The kernel reports the sender of each packet (SCM_CREDENTIALS): the client is the
 * process that connected, and no other one that got hold of the socket. Its grants end when it
 * ends, executes another program, or closes its last connection. Fields that a kind does not name
 * are zero.
 */
#ifndef TEK_MESSAGE_ABI_H
#define TEK_MESSAGE_ABI_H

#include "tek_types.h"

#define TEK_SOCKET_PATH "/run/tek/tekd"
#define TEK_SOCKET_VERSION 1u
#define TEK_REQUEST_MAGIC 0x514b4554u /* "TEKQ", little-endian */
#define TEK_REPLY_MAGIC 0x524b4554u   /* "TEKR" */

/* struct tek_request.kind. Threads and processes are named by their ids in tekd's pid namespace. */
#define TEK_ASK_HELLO 1u /* first; reply: value[0] is TEK_GRANT_*, value[1] the budget's ns */
#define TEK_ASK_ENTER \
	2u /* the thread `tid` of this process into the Fast Region with `priority`, or, if it is
	      there, to that priority; until `until_ns` if that is not 0 */
#define TEK_ASK_LEAVE 3u /* and out of it: 0 also if it was not there */
#define TEK_ASK_GROUP \
	4u /* the thread `tid`, 0: this whole process, into the group `group`, until the process
	      ends or tekd stops; with TEK_ASK_PROCESS all of another process, as for CRITICAL.
	      Needs no HELLO before it */
#define TEK_ASK_STATUS \
	5u /* what tekd is at; the reply brings a file (SCM_RIGHTS) with JSON in it */
#define TEK_ASK_EXPLAIN 6u /* the same about the thread `tid` */
#define TEK_ASK_CRITICAL \
	7u /* as ENTER, for a foreign thread or, with TEK_ASK_PROCESS, all threads of the
	      process `tid` that began at `start_ticks`, if that is not 0 (/proc/PID/stat, field
	      22, give or take one); only for clients that tekd allows */
#define TEK_ASK_NORMAL 8u /* and back again */

/* struct tek_request.flags */
#define TEK_ASK_PROCESS 0x01u
#define TEK_ASK_LIFT \
	0x02u /* of ENTER: only because a Fast thread waits for this one. It gives its place to a
		 thread of the process that is Fast for another reason */
#define TEK_ASK_THEN \
	0x04u /* of ENTER with `until_ns`: the thread then stays, with `then_priority` and without
		 an end */

struct tek_request {
	tek_u32 magic;   /* TEK_REQUEST_MAGIC */
	tek_u16 version; /* TEK_SOCKET_VERSION */
	tek_u16 kind;    /* TEK_ASK_* */
	tek_u32 number;  /* the sender's choice */
	tek_u32 tid;
	tek_u64 start_ticks;   /* both as in the initial time namespace: */
	tek_u64 until_ns;      /* CLOCK_MONOTONIC */
	tek_s32 priority;      /* of SCHED_TEK: -20 to 19 */
	tek_u32 flags;         /* TEK_ASK_* */
	tek_u32 group;         /* TEK_GROUP_* */
	tek_u32 budget_us;     /* of ENTER: CPU time that the thread wants to be held to, in each */
	tek_u32 window_us;     /* window of that length; 0: to what the grant says only */
	tek_s32 then_priority; /* of SCHED_TEK, with TEK_ASK_THEN */
	tek_u32 reserved[2];   /* zero */
};

/* struct tek_reply.kind: that of the request, or */
#define TEK_TELL_LEFT \
	101u /* the thread `tid` is Fast no more: error is EDQUOT (its budget; value[0] ns used of
	        value[1] ns), ETIME (`until_ns` has come), EPERM (it may not be so any more), EAGAIN
	        (another user, or for a lifted thread another thread, needs its place) */
#define TEK_TELL_REFUSED 102u /* what came was no request; the connection is closed */

/* Permissions of a process, in the reply to HELLO. */
#define TEK_GRANT_SWITCH 0x01u /* tekd makes each switch */
#define TEK_GRANT_LIMIT 0x02u  /* its RLIMIT_RTPRIO was raised: it can do so itself */

struct tek_reply {
	tek_u32 magic;   /* TEK_REPLY_MAGIC */
	tek_u16 version; /* TEK_SOCKET_VERSION */
	tek_u16 kind;
	tek_u32 number;
	tek_u32 tid;
	tek_s32 error;       /* errno value; 0: done */
	tek_u32 rt_priority; /* in force, after ENTER and CRITICAL; 0: none of tekd's */
	tek_u64 value[2];    /* [0] after ENTER with TEK_ASK_THEN: rt_priority from `until_ns`
	                        on, by this request; 0: none of tekd's */
	tek_u8 text[88];     /* why, one line, NUL-terminated; with error only */
};

TEK_ABI_ASSERT(sizeof(struct tek_request) == 64);
TEK_ABI_AT(tek_request, version, 4);
TEK_ABI_AT(tek_request, kind, 6);
TEK_ABI_AT(tek_request, number, 8);
TEK_ABI_AT(tek_request, tid, 12);
TEK_ABI_AT(tek_request, start_ticks, 16);
TEK_ABI_AT(tek_request, until_ns, 24);
TEK_ABI_AT(tek_request, priority, 32);
TEK_ABI_AT(tek_request, flags, 36);
TEK_ABI_AT(tek_request, group, 40);
TEK_ABI_AT(tek_request, budget_us, 44);
TEK_ABI_AT(tek_request, window_us, 48);
TEK_ABI_AT(tek_request, then_priority, 52);

TEK_ABI_ASSERT(sizeof(struct tek_reply) == 128);
TEK_ABI_AT(tek_reply, version, 4);
TEK_ABI_AT(tek_reply, kind, 6);
TEK_ABI_AT(tek_reply, number, 8);
TEK_ABI_AT(tek_reply, tid, 12);
TEK_ABI_AT(tek_reply, error, 16);
TEK_ABI_AT(tek_reply, rt_priority, 20);
TEK_ABI_AT(tek_reply, value, 24);
TEK_ABI_AT(tek_reply, text, 40);

#endif
