/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/posix/fit.h"

#include "base/module.h"
#include "stack/config.h"
#include "stack/fit.h"
#include "stack/learnt.h"
#include "tek_abi.h"
#include "uthread/posix/sched.h"
#include "uthread/spin.h"
#include "uthread/worker.h"

/* A cache of the profile's results for places, because a profile may have thousands of lines. */
#define PLACES 64

static struct {
	struct tek_spin lock;
	struct place {
		uintptr_t function, call_site;
		struct tek_known known;
	} place[PLACES];
} found;

static bool fits_stacks(void)
{
	return tek__stack_config.mode >= TEK_STACK_MODE_AUTO;
}

void tek_ut__posix_fit_start(void)
{
	tek__stack_config_read();
	if (!fits_stacks())
		return;
	tek__fit_start();
	tek__module_note_program();
	tek__learnt_start();
}

static size_t most_size(uint64_t bytes)
{
	return bytes < SIZE_MAX ? (size_t)bytes : SIZE_MAX;
}

static struct tek_known learnt_of(uintptr_t function, uintptr_t call_site)
{
	const struct tek_learnt_site learnt = tek__learnt_of(function, call_site);

	return (struct tek_known){
		.bound_bytes = most_size(learnt.bound_bytes),
		.growth_bytes = most_size(learnt.growth_bytes),
		.overflow_bytes = most_size(learnt.overflow_bytes),
		.peak_bytes = most_size(learnt.peak_bytes),
	};
}

static struct tek_known known_of(uintptr_t function, uintptr_t call_site)
{
	struct place *place = &found.place[(function / 16 + call_site) % PLACES];

	tek_ut__enter();
	tek_ut__spin_lock(&found.lock);
	if (place->function != function || place->call_site != call_site)
		*place = (struct place){function, call_site, learnt_of(function, call_site)};
	const struct tek_known known = place->known;
	tek_ut__spin_unlock(&found.lock);
	tek_ut__leave();
	return known;
}

bool tek_ut__posix_fit(struct tek_attr *read, uintptr_t function, uintptr_t call_site)
{
	if (!fits_stacks() || read->stack || (read->stack_bytes && !tek__stack_config.override))
		return false;
	tek__module_note(call_site);
	const struct tek_known known = known_of(function, call_site);
	const size_t bytes = tek__fit(&known, read->stack_bytes ? read->stack_bytes
								: tek_ut__sched_default_stack());
	if (bytes)
		read->stack_bytes = bytes;
	return bytes != 0;
}
