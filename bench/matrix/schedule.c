/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "schedule.h"

#include "row.h"

#include <err.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REAL_TIME_PRIORITY 50
#define RTKIT_PRIORITY 20
#define RTKIT "org.freedesktop.RealtimeKit1"

/* Prefixes of dbus-send's command line; it is a shell command. */
#define TO_RTKIT \
	"dbus-send --system --print-reply=literal --reply-timeout=10000 --dest=" RTKIT \
	" /org/freedesktop/RealtimeKit1 "
#define PROPERTY TO_RTKIT "org.freedesktop.DBus.Properties.Get string:" RTKIT " string:"

/* Runs a command of dbus-send.  `reply` receives its first line. */
static void rtkit_call(const char *command, char *reply, size_t size)
{
	FILE *output = popen(command, "r");
	if (!output)
		err(EXIT_FAILURE, "cannot start a shell");
	reply[0] = 0;
	if (fgets(reply, (int)size, output))
		reply[strcspn(reply, "\n")] = 0;
	while (fgetc(output) != EOF)
		;
	if (pclose(output))
		errx(EXIT_FAILURE,
		     "rtkit gives no real-time policy (%s); it needs a system bus of D-Bus: "
		     "apt-get install dbus-bin dbus polkitd rtkit",
		     reply);
}

/* A property of rtkit; the reply is "variant TYPE NUMBER". */
static long rtkit_property(const char *command)
{
	char reply[512];
	rtkit_call(command, reply, sizeof(reply));
	const char *last = strrchr(reply, ' ');
	return last ? strtol(last, NULL, 10) : 0;
}

static void rtkit_ask(void)
{
	char command[1024], reply[512];
	long most = rtkit_property("exec 2>&1; " PROPERTY "MaxRealtimePriority");
	long limit_us = rtkit_property("exec 2>&1; " PROPERTY "RTTimeUSecMax");
	/* It refuses processes without this limit. */
	struct rlimit limit = {.rlim_cur = (rlim_t)limit_us, .rlim_max = (rlim_t)limit_us};
	if (setrlimit(RLIMIT_RTTIME, &limit))
		err(EXIT_FAILURE, "cannot limit the real-time CPU time");
	snprintf(command, sizeof(command),
		 "exec 2>&1; " TO_RTKIT RTKIT
		 ".MakeThreadRealtimeWithPID uint64:%ld uint64:%ld uint32:%ld",
		 (long)getpid(), syscall(SYS_gettid),
		 most < RTKIT_PRIORITY ? most : RTKIT_PRIORITY);
	rtkit_call(command, reply, sizeof(reply));
}

void schedule_self(enum schedule schedule)
{
	struct sched_param param = {.sched_priority = REAL_TIME_PRIORITY};
	switch (schedule) {
	case SCHEDULE_ORDINARY:
		break;
	case SCHEDULE_NICE:
		if (setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), -20))
			err(EXIT_FAILURE, "cannot set the nice value");
		break;
	case SCHEDULE_REAL_TIME:
		must(pthread_setschedparam(pthread_self(), SCHED_RR, &param),
		     "cannot set the real-time policy");
		break;
	case SCHEDULE_RTKIT:
		rtkit_ask();
		break;
	}
}
