/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/next.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* What we interpose of which the C library has several versions that differ: the newest one of each. */
static const struct {
	const char *name, *version;
} versioned[] = {
	{"posix_spawn", "GLIBC_2.15"},
	{"posix_spawnp", "GLIBC_2.15"},
	{"pthread_cond_broadcast", "GLIBC_2.3.2"},
	{"pthread_cond_destroy", "GLIBC_2.3.2"},
	{"pthread_cond_init", "GLIBC_2.3.2"},
	{"pthread_cond_signal", "GLIBC_2.3.2"},
	{"pthread_cond_timedwait", "GLIBC_2.3.2"},
	{"pthread_cond_wait", "GLIBC_2.3.2"},
	{"pthread_getaffinity_np", "GLIBC_2.32"},
	{"pthread_kill", "GLIBC_2.34"},
	{"pthread_setaffinity_np", "GLIBC_2.34"},
	{"sched_getaffinity", "GLIBC_2.3.4"},
	{"sched_setaffinity", "GLIBC_2.3.4"},
	{"timer_create", "GLIBC_2.34"},
};

static bool is_same_library(const void *one, const void *other)
{
	Dl_info of_one, of_other;

	return dladdr(one, &of_one) && dladdr(other, &of_other) &&
	       of_one.dli_fbase == of_other.dli_fbase;
}

void *tek__next_definition(const char *name)
{
	void *found = dlsym(RTLD_NEXT, name);

	for (size_t i = 0; found && i < sizeof(versioned) / sizeof(versioned[0]); i++) {
		if (strcmp(name, versioned[i].name) != 0)
			continue;
		/* It passes by libraries without versions, so it is only asked within the one that was found. */
		void *newer = dlvsym(RTLD_NEXT, name, versioned[i].version);
		if (newer && is_same_library(newer, found))
			return newer;
	}
	return found;
}
