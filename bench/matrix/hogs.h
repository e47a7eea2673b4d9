/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The CPU-bound processes of `tek bench matrix`.  main() starts them before the first thread; they
 * end with it.  Errors of a hog end it, which hogs_verify() reports.
 */
#ifndef MATRIX_HOGS_H
#define MATRIX_HOGS_H

#include <stdbool.h>
#include <sys/types.h>

struct hogs {
	unsigned count;
	/* The directory of the control group that each hog enters.  May be NULL. */
	const char *group;
	/* Whether each hog becomes this user, which needs root. */
	bool is_other_user;
	uid_t user;
};

void hogs_start(const struct hogs *hogs);

/* Ends the process with a message if a child has ended.  Waits for such an end if `wait` is set. */
void hogs_verify(bool wait);

#endif
