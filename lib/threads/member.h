/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The mediator's data for each thread. */
#ifndef TEK_THREADS_MEMBER_H
#define TEK_THREADS_MEMBER_H

#include "base/parse.h"
#include "tek_abi.h"

#include <stdbool.h>
#include <stdint.h>

struct tek_thread;

/* Reasons that count as a request, which marked threads of the group follow. */
#define TEK_WHY_REQUEST (TEK_WHY_POLICY | TEK_WHY_ENTER | TEK_WHY_TIMED | TEK_WHY_RULE)
/* Reasons that a program gives by itself, so that it expects to read SCHED_TEK back. */
#define TEK_WHY_PROGRAM (TEK_WHY_POLICY | TEK_WHY_ENTER | TEK_WHY_TIMED | TEK_WHY_FOLLOW)

/* Looks that the guard takes in one budget window. */
#define TEK_GUARD_SAMPLES 16

/* The kernel's settings of a thread before it became Fast, nice apart: see rt.h. */
struct tek_base {
	unsigned char policy;   /* SCHED_* */
	unsigned char priority; /* real-time priority */
	bool reset_on_fork;
	uint64_t slice_ns; /* of a fair policy; 0: this kernel does not tell */
};

/* The daemon's NOTICE about a thread that it took back. */
struct tek_taken {
	int error;                    /* 0: it did not */
	uint64_t used_ns, allowed_ns; /* CPU time; 0: it is not about that */
};

/* A stay that tekd is asked for. */
struct tek_stay {
	uint64_t until_ns;      /* CLOCK_MONOTONIC; 0: until it is taken back */
	signed char nice;       /* SCHED_TEK priority */
	bool goes_on;           /* after until_ns, with: */
	signed char later_nice; /* else 0 */
};

struct tek_member {
	unsigned char group;   /* TEK_GROUP_* */
	bool marked;           /* time-critical, tek-2020 IV-A */
	unsigned char reasons; /* set of TEK_WHY_* */
	signed char policy_nice, rule_nice, follow_nice, lift_nice;
	int lifted_for;           /* kernel id of the thread that waits, behind TEK_WHY_LIFT */
	uint64_t follow_until_ns; /* end of TEK_WHY_FOLLOW, CLOCK_MONOTONIC; 0: not known */
	unsigned char rule;       /* behind TEK_WHY_RULE: see struct tek_side */
	signed char nice;         /* SCHED_TEK priority of the present or last stay */
	uint16_t depth;           /* of tek_critical_enter() */
	uint64_t deadline_ns;     /* end of TEK_WHY_TIMED, CLOCK_MONOTONIC */

	bool paused; /* has its base for the moment, Fast or not: see region.h */

	/* While Fast. The region is a doubly linked list, as in tek-2020 IV-A. */
	bool fast;
	struct tek_thread *region_prev, *region_next;
	struct tek_base base;      /* what is restored */
	unsigned char rt_priority; /* in force; 0: its own priority was no lower, nothing done */
	unsigned char later_rt_priority; /* likewise, from the end of its time on; 0: none */
	bool rt_reset_on_fork;           /* the kernel's flag is set, by us */
	uint64_t fast_since_ns;          /* CLOCK_BOOTTIME; 0: it is lifted only */
	uint64_t lifted_since_ns;        /* CLOCK_BOOTTIME; 0: it is not lifted */

	/* While it is Fast by the daemon (daemon.h). */
	unsigned int connection; /* over which it was asked for; 0: it is not Fast by the daemon */
	struct tek_stay asked;
	struct tek_budget asked_budget;
	bool asked_lift; /* it is Fast only because another thread waits for it */
	struct tek_taken taken;

	/* Guard. */
	uint64_t fast_cpu_ns;              /* CPU time used while Fast, finished stays */
	uint64_t cpu_at_entry_ns;          /* its CPU time when the present stay began */
	unsigned int last_sample;          /* number of the newest look in fast_cpu[] */
	bool own_budget;                   /* a rule gives it one: */
	struct tek_budget budget;          /* instead of its process's */
	uint64_t own_since_ns, own_cpu_ns; /* when its window began, and what it had used */
	uint64_t own_sample_ns;            /* when the guard looks at it next */
	uint64_t banned_until_ns;          /* CLOCK_MONOTONIC; after an overrun */
	bool returns;                      /* a rule takes it back then */

	/* Totals for the table and the report. */
	uint64_t fast_ns, lifted_ns;
	uint32_t stays, lifts, overruns;

	/* fast_cpu_ns at the last looks, a ring; valid once it was Fast. */
	uint64_t fast_cpu[TEK_GUARD_SAMPLES];
};

#endif
