/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program written for SCHED_TEK without a library of TEK: it must run the same where TEK is not
 * installed.  The first argument is "with" or "without", as TEK is expected to be there or not.
 */
#define TEK_OPTIONAL
#include <tek/tek.h>

#include <stdio.h>
#include <string.h>

static int failures;

static void expect(const char *what, int got, int wanted)
{
	printf("%s: %d\n", what, got);
	if (got != wanted) {
		printf("  but %d was expected\n", wanted);
		failures++;
	}
}

/* 0 where the process has no privilege, or its control group has no real-time run-time. */
static int may_be_real_time(void)
{
	const struct sched_param least = {.sched_priority = 1}, none = {0};

	if (sched_setscheduler(0, SCHED_RR, &least))
		return 0;
	return sched_setscheduler(0, SCHED_OTHER, &none) == 0;
}

static void *work(void *argument)
{
	return argument;
}

int main(int argc, char *argv[])
{
	const int with = argc > 1 && strcmp(argv[1], "with") == 0;
	const struct sched_param good = {.sched_priority = -5}, bad = {.sched_priority = 20};
	struct sched_param param;
	struct tek_attributes attributes = {0};
	enum tek_group group;
	pthread_attr_t attr;
	pthread_t thread;
	int policy;

	if (with && !may_be_real_time()) {
		puts("skipped: this process may use no real-time policy");
		return 77;
	}
	expect("present", tek_present(), with);
	expect("version is known", strcmp(tek_version(), "0.0.0") != 0, with);
	expect("check", tek_check(), 0);
	expect("set", pthread_setschedparam(pthread_self(), SCHED_TEK, &good), 0);
	expect("set to 20", pthread_setschedparam(pthread_self(), SCHED_TEK, &bad), EINVAL);
	expect("get", pthread_getschedparam(pthread_self(), &policy, &param), 0);
	expect("policy", policy, with ? SCHED_TEK : SCHED_OTHER);
	expect("sched_setscheduler", sched_setscheduler(0, SCHED_TEK, &good), 0);
	expect("setschedprio", pthread_setschedprio(pthread_self(), -6), 0);
	expect("setschedprio 20", pthread_setschedprio(pthread_self(), 20), EINVAL);
	expect("sched_setparam", sched_setparam(0, &good), 0);
	expect("sched_setparam 20", sched_setparam(0, &bad), -1);
	expect("min", sched_get_priority_min(SCHED_TEK), -20);
	expect("max", sched_get_priority_max(SCHED_TEK), 19);
	expect("enter", tek_critical_enter(), 0);
	expect("leave", tek_critical_leave(), 0);
	expect("for", tek_critical_for(1000), 0);
	expect("mark", tek_thread_mark(pthread_self(), 1), 0);
	expect("group", tek_thread_get_group(pthread_self(), &group), 0);
	strcpy(attributes.role, "optional");
	expect("set role",
	       tek_thread_set_attributes(pthread_self(), TEK_ATTRIBUTE_ROLE, &attributes), 0);
	expect("get role", pthread_get_attributes(pthread_self(), &attributes), 0);
	expect("role is there", strcmp(attributes.role, "optional") == 0, with);
	expect("get by tid", tek_tid_get_attributes(tek_gettid(), &attributes), 0);
	expect("own tid", tek_gettid() == (pid_t)syscall(SYS_gettid), 1);
	expect("budget", tek_set_budget(0, 1000000000), 0);

	pthread_attr_init(&attr);
	expect("attr policy", pthread_attr_setschedpolicy(&attr, SCHED_TEK), 0);
	expect("attr param", pthread_attr_setschedparam(&attr, &good), 0);
	expect("attr param 20", pthread_attr_setschedparam(&attr, &bad), EINVAL);
	pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
	expect("create", pthread_create(&thread, &attr, work, NULL), 0);
	expect("join", pthread_join(thread, NULL), 0);
	pthread_attr_destroy(&attr);
	return failures != 0;
}
