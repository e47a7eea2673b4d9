/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stack/profile.h"

bool tek__profile_parse(const char *text, size_t bytes,
			void (*visit)(const struct tek_learnt *, void *), void *context)
{
	(void)text;
	(void)bytes;
	(void)visit;
	(void)context;
	return false;
}

bool tek__profile_read(void (*visit)(const struct tek_learnt *, void *), void *context)
{
	(void)visit;
	(void)context;
	return false;
}
