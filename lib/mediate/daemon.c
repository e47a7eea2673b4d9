/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "mediate/daemon.h"

#include "base/clock.h"
#include "base/time_namespace.h"
#include "mediate/config.h"
#include "mediate/connection.h"
#include "mediate/rt.h"
#include "threads/thread.h"

#include <errno.h>

enum { HIGHEST_RT_PRIORITY = 99 };

atomic_bool tek__daemon_was_used;

static unsigned int greeted; /* the connection over which HELLO was said */
static unsigned int grant;   /* TEK_GRANT_*, of that */

bool tek__daemon_is_placing; /* there is a connection, and it was made for that only */

/* tekd has taken a thread back. The region follows when it looks at it: see region.h. */
static void notified(const struct tek_reply *reply)
{
	struct tek_thread *thread = tek__thread_known_tid((pid_t)reply->tid);

	if (!thread || thread->member.connection != tek__connection())
		return;
	if (reply->error)
		tek__connection_note_why(reply);
	thread->member.taken = (struct tek_taken){
		.error = reply->error ? reply->error : EPERM,
		.used_ns = reply->value[0],
		.allowed_ns = reply->value[1],
	};
}

static int error_of(const struct tek_reply *reply)
{
	switch (reply->error) {
	case 0:
	case EDQUOT:
	case EAGAIN:
	case ESRCH:
	case ETIME:
		return reply->error;
	case EBUSY: /* too many requests in a short time */
		return EAGAIN;
	default:
		return EPERM;
	}
}

/* Nothing is known of a connection that was made for placing threads. */
static bool is_greeted(void)
{
	return tek__connection_is_open() && tek__connection() == greeted;
}

unsigned int tek__daemon_grant(void)
{
	struct tek_request hello = {0};
	struct tek_reply reply;

	if (is_greeted())
		return grant;
	grant = 0;
	if (!tek__connection_open() ||
	    !tek__connection_ask(TEK_ASK_HELLO, &hello, &reply, notified))
		return 0;
	greeted = tek__connection();
	tek__daemon_is_placing = false;
	if (reply.error == 0)
		grant = (unsigned int)reply.value[0] & (TEK_GRANT_SWITCH | TEK_GRANT_LIMIT);
	if (!grant) {
		tek__connection_close("");
		tek__connection_note_why(&reply);
	}
	return grant;
}

bool tek__daemon_serves(void)
{
	return tek__connection() && !(grant & TEK_GRANT_LIMIT) && is_greeted();
}

/* The budget that tekd is to enforce, beside its own limits: one that was requested. */
static struct tek_budget wanted_budget(const struct tek_member *member)
{
	const struct tek_budget none = {0};
	bool is_given = member->own_budget || tek__config.budget_given;
	struct tek_budget budget = member->own_budget ? member->budget : tek__config.budget;

	return is_given && budget.cpu_ns ? budget : none;
}

static bool is_same(struct tek_budget a, struct tek_budget b)
{
	return a.cpu_ns == b.cpu_ns && a.window_ns == b.window_ns;
}

static tek_u32 microseconds(uint64_t ns)
{
	return (tek_u32)((ns + 999) / 1000); /* 0 is no budget; an hour is not too much */
}

static bool is_lifted_only(const struct tek_member *member)
{
	return member->reasons == TEK_WHY_LIFT;
}

static bool ask_to_enter(pid_t tid, const struct tek_member *member, struct tek_stay stay,
			 struct tek_reply *reply)
{
	struct tek_budget budget = wanted_budget(member);
	struct tek_time_offsets offsets = {0};

	if (stay.until_ns)
		tek__time_offsets(&offsets);
	struct tek_request request = {
		.tid = (tek_u32)tid,
		.priority = stay.nice,
		.flags = (is_lifted_only(member) ? TEK_ASK_LIFT : 0) |
			 (stay.goes_on ? TEK_ASK_THEN : 0),
		.until_ns = stay.until_ns - (uint64_t)offsets.monotonic_ns,
		.budget_us = microseconds(budget.cpu_ns),
		.window_us = microseconds(budget.window_ns),
		.then_priority = stay.later_nice,
	};
	return tek__connection_ask(TEK_ASK_ENTER, &request, reply, notified);
}

static int note_answer(const struct tek_reply *reply, struct tek_member *member,
		       struct tek_stay stay)
{
	int error = error_of(reply);

	if (error) {
		tek__connection_note_why(reply);
		return error;
	}
	member->rt_priority = (unsigned char)reply->rt_priority;
	member->later_rt_priority = stay.goes_on ? (unsigned char)reply->value[0] : 0;
	member->connection = tek__connection();
	member->asked = stay;
	member->asked_budget = wanted_budget(member);
	member->asked_lift = is_lifted_only(member);
	member->taken.error = 0; /* if it was taken back, that was before */
	atomic_store_explicit(&tek__daemon_was_used, true, memory_order_relaxed);
	return 0;
}

static bool makes_sense(const struct tek_reply *reply, pid_t tid)
{
	return reply->tid == (tek_u32)tid && reply->rt_priority <= HIGHEST_RT_PRIORITY &&
	       reply->value[0] <= HIGHEST_RT_PRIORITY;
}

static bool is_over(struct tek_stay stay)
{
	return stay.until_ns && !stay.goes_on && stay.until_ns <= tek__now(CLOCK_MONOTONIC);
}

int tek__daemon_enter(pid_t tid, struct tek_member *member, struct tek_stay stay)
{
	struct tek_reply reply;
	int error = tek__rt_note_base(tid, member);

	if (error)
		return error;
	if (is_over(stay))
		return ETIME;
	if (!tek__daemon_grant())
		return EPERM;
	bool answered = ask_to_enter(tid, member, stay, &reply);
	/* The connection may have been lost before: tekd was started anew. Try once more. */
	if (!answered && tek__daemon_grant())
		answered = ask_to_enter(tid, member, stay, &reply);
	if (answered && !makes_sense(&reply, tid)) {
		tek__connection_close("its answer makes no sense");
		answered = false;
	}
	if (answered)
		return note_answer(&reply, member, stay);
	/* It may have made the switch, and ended before it answered. */
	tek__rt_undo(tid, member);
	return EPERM;
}

/* True if tekd still has to be notified that a thread leaves or changes. */
static bool is_granted(const struct tek_member *member)
{
	struct tek_taken taken;
	return tek__connection_is_open() && !tek__daemon_has_taken(member, &taken);
}

static bool is_same_stay(struct tek_stay a, struct tek_stay b)
{
	return a.nice == b.nice && a.until_ns == b.until_ns && a.goes_on == b.goes_on &&
	       a.later_nice == b.later_nice;
}

int tek__daemon_move(pid_t tid, struct tek_member *member, struct tek_stay stay)
{
	struct tek_reply reply;

	if ((is_same_stay(stay, member->asked) &&
	     is_same(wanted_budget(member), member->asked_budget) &&
	     is_lifted_only(member) == member->asked_lift) ||
	    !is_granted(member))
		return 0;
	if (is_over(stay))
		return ETIME;
	if (!ask_to_enter(tid, member, stay, &reply) || !makes_sense(&reply, tid))
		return 0;
	return note_answer(&reply, member, stay) == ETIME ? ETIME : 0;
}

void tek__daemon_end(pid_t tid, struct tek_member *member)
{
	struct tek_request request = {.tid = (tek_u32)tid};
	struct tek_reply reply;

	if (is_granted(member))
		tek__connection_ask(TEK_ASK_LEAVE, &request, &reply, notified);
	member->connection = 0;
	member->rt_priority = 0;
	member->taken.error = 0;
}

void tek__daemon_leave(pid_t tid, struct tek_member *member)
{
	struct tek_member own = *member;

	tek__daemon_end(tid, member);
	/*
	 * A tekd that is gone has restored nothing, and each process may lower its own threads. The
	 * next tekd restores what it may not: real-time policies of its own, and the flag.
	 */
	if (own.connection != tek__connection() && !tek__is_real_time(own.base.policy))
		tek__rt_leave(tid, &own);
}

static bool ask_to_place(pid_t tid, unsigned int group, struct tek_reply *reply)
{
	struct tek_request request = {.tid = (tek_u32)tid, .group = group};
	bool is_new = !tek__connection_is_open();

	if (!tek__connection_open())
		return false;
	tek__daemon_is_placing |= is_new;
	return tek__connection_ask(TEK_ASK_GROUP, &request, reply, notified);
}

int tek__daemon_place(pid_t tid, unsigned int group)
{
	struct tek_reply reply;
	bool was_open = tek__connection() != 0;
	bool answered = ask_to_place(tid, group, &reply);

	/* The connection may have been lost before: tekd was started anew. Try once more. */
	if (!answered && was_open)
		answered = ask_to_place(tid, group, &reply);
	if (!answered)
		return tek__connection_why()[0] ? ENOTCONN : ENOENT;
	if (reply.error)
		tek__connection_note_why(&reply);
	return reply.error;
}

void tek__daemon_hang_up(void)
{
	if (tek__threads_are_starting())
		return;
	tek__daemon_is_placing = false;
	if (!is_greeted())
		tek__connection_close("");
}

void tek__daemon_listen(void)
{
	if (tek__connection())
		tek__connection_listen(notified);
}

bool tek__daemon_has_taken(const struct tek_member *member, struct tek_taken *taken)
{
	*taken = member->taken;
	if (member->connection && member->connection != tek__connection())
		taken->error = ECONNRESET; /* and everything else that it had */
	return member->connection && taken->error;
}

void tek__daemon_forget(void)
{
	tek__connection_forget();
	greeted = 0;
	tek__daemon_is_placing = false;
	atomic_store_explicit(&tek__daemon_was_used, false, memory_order_relaxed);
}
