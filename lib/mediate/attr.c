/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "mediate/attr.h"

#include "base/real.h"

#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <tek/tek.h>

static size_t policy_at, priority_at;
static bool found;

static int read_int(const pthread_attr_t *attr, size_t at)
{
	int value;
	memcpy(&value, (const char *)attr + at, sizeof(value));
	return value;
}

static void write_int(pthread_attr_t *attr, size_t at, int value)
{
	memcpy((char *)attr + at, &value, sizeof(value));
}

/* The only int that went from `from` to `to`; flags may have changed too. */
static bool find_change(const pthread_attr_t *a, const pthread_attr_t *b, int from, int to,
			size_t *at)
{
	unsigned int changes = 0;
	for (size_t i = 0; i + sizeof(int) <= sizeof(*a); i += sizeof(int)) {
		if (read_int(a, i) == from && read_int(b, i) == to) {
			changes++;
			*at = i;
		}
	}
	return changes == 1;
}

/* A real policy and priority, so that the object knows that both were set. */
static bool set_stand_in(pthread_attr_t *attr, int policy, int priority)
{
	const struct sched_param param = {.sched_priority = priority};
	return tek__c_library.pthread_attr_setschedpolicy(attr, policy) == 0 &&
	       tek__c_library.pthread_attr_setschedparam(attr, &param) == 0;
}

void tek__attr_start(void)
{
	pthread_attr_t before, after;

	if (pthread_attr_init(&before))
		return;
	memcpy(&after, &before, sizeof(after));
	found = set_stand_in(&before, SCHED_FIFO, 37) && set_stand_in(&after, SCHED_RR, 41) &&
		find_change(&before, &after, SCHED_FIFO, SCHED_RR, &policy_at) &&
		find_change(&before, &after, 37, 41, &priority_at);
	pthread_attr_destroy(&before);
}

int tek__attr_set_policy(pthread_attr_t *attr)
{
	if (!found)
		return ENOTSUP;
	if (!tek__attr_has_policy(attr)) {
		if (!set_stand_in(attr, SCHED_RR, 1))
			return ENOTSUP;
		write_int(attr, policy_at, SCHED_TEK);
		write_int(attr, priority_at, 0);
	}
	return 0;
}

bool tek__attr_has_policy(const pthread_attr_t *attr)
{
	return found && read_int(attr, policy_at) == SCHED_TEK;
}

int tek__attr_priority(const pthread_attr_t *attr)
{
	return read_int(attr, priority_at);
}

int tek__attr_set_priority(pthread_attr_t *attr, int priority)
{
	if (priority < TEK_PRIORITY_MIN || priority > TEK_PRIORITY_MAX)
		return EINVAL;
	write_int(attr, priority_at, priority);
	return 0;
}

void tek__attr_clear_priority(pthread_attr_t *attr)
{
	write_int(attr, priority_at, 0);
}

void tek__attr_without_policy(pthread_attr_t *plain, const pthread_attr_t *attr)
{
	memcpy(plain, attr, sizeof(*plain));
	write_int(plain, policy_at, SCHED_OTHER);
	tek__attr_clear_priority(plain);
}
