/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "hogs.h"

#include "row.h"

#include <err.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void group_enter(const char *directory)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s/cgroup.procs", directory);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	/* 0 is the calling process. */
	if (fd < 0 || write(fd, "0", 1) != 1)
		err(EXIT_FAILURE, "cannot enter the control group %s", directory);
	close(fd);
}

static void user_become(uid_t user, pid_t parent)
{
	if (setgroups(0, NULL) || setgid(user) || setuid(user))
		err(EXIT_FAILURE, "cannot become user %u", (unsigned)user);
	/* The kernel forgets the signal when the user changes. */
	end_with(parent);
}

static void hog_run(const struct hogs *hogs, pid_t parent)
{
	if (hogs->group)
		group_enter(hogs->group);
	if (hogs->is_other_user)
		user_become(hogs->user, parent);
	for (;;) {
		work_ms(PART_MS);
		hog_did();
	}
}

void hogs_start(const struct hogs *hogs)
{
	pid_t parent = getpid();
	for (unsigned i = 0; i < hogs->count; i++) {
		if (child_start())
			hog_run(hogs, parent);
	}
}

void hogs_verify(bool wait)
{
	pid_t ended = waitpid(-1, NULL, wait ? 0 : WNOHANG);
	if (ended > 0)
		errx(EXIT_FAILURE, "the background process %d ended early", (int)ended);
}
