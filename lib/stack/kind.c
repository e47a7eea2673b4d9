/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stack/kind.h"

unsigned short tek__site_of(const struct tek_thread *thread)
{
	(void)thread;
	return 0;
}

struct tek_known tek__site_known(unsigned short site)
{
	(void)site;
	return (struct tek_known){0};
}

bool tek__site_wants_measure(unsigned short site)
{
	(void)site;
	return true;
}

bool tek__kind_note(struct tek_thread *thread, const struct tek_stack_use *use)
{
	(void)thread;
	(void)use;
	return false;
}

void tek__kind_overflowed(struct tek_thread *thread)
{
	(void)thread;
}

void tek__kinds_start(void) {}

void tek__kinds_forget(void) {}
