/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * libtek-profile.so gives a routine of its own to the next pthread_create().  Where that is libtek.so's,
 * which tells threads apart by what they run and where they were created, it asks for the program's.
 */
#ifndef TEK_PRELOAD_PROFILE_PASSED_H
#define TEK_PRELOAD_PROFILE_PASSED_H

struct tek_passed {
	void *(*routine)(void *);
	void *argument;
	const void *call_site;
};

/* What the calling thread is about to create; NULL: it is not in libtek-profile.so's pthread_create(). */
__attribute__((visibility("default"))) const struct tek_passed *tek__profile_passed(void);

#endif
