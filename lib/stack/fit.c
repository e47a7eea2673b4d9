/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stack/fit.h"

#include "base/definition.h"
#include "base/page.h"
#include "stack/config.h"
#include "tek_abi.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51 /* Linux 5.14 for x86; elsewhere earlier */
#endif

enum {
	AUTO_MARGIN_PERCENT = 150,
	TIGHT_MARGIN_PERCENT = 108,
	AUTO_FLOOR_BYTES = 64 * 1024, /* and what a thread needs that does nothing */
	MOST_BYTES = 1 << 30,
	MOST_TIMES = 4,          /* the program's own: what an endless recursion gets at most */
	REST_BYTES = 2048,       /* that glibc wants beside the static TLS: MINIMAL_REST_STACK */
	OLD_SIGNAL_BYTES = 2048, /* a frame of a signal, where the kernel does not say */
};

static size_t floor_bytes;   /* of auto */
static size_t minimum_bytes; /* with less the C library creates no thread */

/*
 * The thread control block and all static TLS, the C library's spare room in it included.  A
 * function of the dynamic linker's for the C library and sanitizers; where it is gone (or
 * where, in 32-bit programs before glibc 2.27, it has its arguments in registers) a size that
 * is too small is refused by pthread_create, and the program's own counts.
 */
static size_t static_tls_bytes(void)
{
#if __GLIBC_PREREQ(2, 27)
	void (*ask)(size_t *, size_t *) = NULL;
	size_t size = 0, alignment = 0;

	struct tek_definition found;

	if (tek__defining_file("_dl_get_tls_static_info", &found)) {
		memcpy(&ask, &found.address, sizeof(ask));
		ask(&size, &alignment);
	}
	return size + alignment;
#else
	return 0;
#endif
}

static size_t most(size_t a, size_t b)
{
	return a > b ? a : b;
}

static size_t in_pages(uint64_t bytes)
{
	return (size_t)((bytes + tek__page_bytes - 1) & ~((uint64_t)tek__page_bytes - 1));
}

void tek__fit_start(void)
{
	const size_t tls = static_tls_bytes(), signal = getauxval(AT_MINSIGSTKSZ);
	const long least = sysconf(_SC_THREAD_STACK_MIN);

	floor_bytes = AUTO_FLOOR_BYTES + tls + 2 * most(signal, OLD_SIGNAL_BYTES);
	minimum_bytes = in_pages(most(least > 0 ? (size_t)least : 0, tls + REST_BYTES));
}

size_t tek__fit_floor(void)
{
	return in_pages(floor_bytes);
}

size_t tek__size_for(const struct tek_known *known)
{
	const struct tek_stack_config *config = &tek__stack_config;
	const bool tight = config->mode == TEK_STACK_MODE_TIGHT;

	if (config->mode < TEK_STACK_MODE_AUTO || (!known->bound_bytes && !known->overflow_bytes))
		return 0;
	uint64_t margin = config->margin_percent ? config->margin_percent
			  : tight                ? TIGHT_MARGIN_PERCENT
						 : AUTO_MARGIN_PERCENT;
	uint64_t used = known->bound_bytes;
	/* A use that has grown from one run to another may grow again by as much. */
	if (!tight && !config->margin_percent)
		used += known->growth_bytes;
	uint64_t bytes = (used * margin + 99) / 100;
	uint64_t least = config->floor_bytes ? config->floor_bytes : tight ? 0 : floor_bytes;
	if (least < minimum_bytes)
		least = minimum_bytes;
	if (least < (uint64_t)known->overflow_bytes * 2)
		least = (uint64_t)known->overflow_bytes * 2;
	if (bytes < least)
		bytes = least;
	return bytes < MOST_BYTES ? in_pages(bytes) : MOST_BYTES;
}

/* Whether threads of it may have a larger stack than their program gives them. */
static bool needs_more(const struct tek_known *known, size_t programs)
{
	return known->overflow_bytes || (uint64_t)known->peak_bytes * 100 >
						(uint64_t)programs * tek__stack_config.high_percent;
}

size_t tek__fit(const struct tek_known *known, size_t programs)
{
	const size_t bytes = tek__size_for(known);

	if (!bytes || (bytes >= programs && !needs_more(known, programs)))
		return 0;
	/* The depth that it needed is unknown: the program's own choice may suffice. */
	if (known->overflow_bytes)
		return bytes / MOST_TIMES > programs ? programs * MOST_TIMES
						     : most(bytes, programs);
	return bytes;
}
