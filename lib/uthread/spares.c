/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/spares.h"

#include "base/clock.h"
#include "uthread/supplier.h"

#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The most spare ones; more than that end. */
#define MOST 64

static struct {
	struct tek_spin lock;
	struct tek_carrier *first;
	atomic_uint count;   /* a futex for threads that wait for one */
	atomic_uint waiting; /* number of these threads */
	struct tek_carrier *dropped;
} spares;

unsigned int tek_ut__carrier_spares(void)
{
	return atomic_load_explicit(&spares.count, memory_order_relaxed);
}

static struct tek_carrier *take(struct tek_carrier **list)
{
	struct tek_carrier *carrier = *list;

	if (carrier)
		*list = carrier->next;
	return carrier;
}

/* If there are fewer than `most`, and it may run threads. */
static bool add(struct tek_carrier *carrier, unsigned int most)
{
	tek_ut__spin_lock(&spares.lock);
	bool wanted = tek_ut__carrier_spares() < most && !tek_ut__carrier_is_over(carrier);
	if (wanted) {
		carrier->next = spares.first;
		spares.first = carrier;
		atomic_fetch_add(&spares.count, 1);
	}
	tek_ut__spin_unlock(&spares.lock);
	if (wanted && atomic_load(&spares.waiting))
		syscall(SYS_futex, &spares.count, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	return wanted;
}

bool tek_ut__carrier_put_back(struct tek_carrier *spare)
{
	return add(spare, ~0u);
}

bool tek_ut__carrier_keep(struct tek_carrier *carrier)
{
	return add(carrier, MOST);
}

struct tek_carrier *tek_ut__carrier_spare(void)
{
	tek_ut__spin_lock(&spares.lock);
	struct tek_carrier *carrier = take(&spares.first);
	if (carrier)
		atomic_fetch_sub_explicit(&spares.count, 1, memory_order_relaxed);
	tek_ut__spin_unlock(&spares.lock);
	return carrier;
}

void tek_ut__spares_dismiss(void)
{
	struct tek_carrier *spare;

	while ((spare = tek_ut__carrier_spare()))
		tek_ut__carrier_dismiss(spare);
}

struct tek_carrier *tek_ut__carrier_spare_soon(uint64_t ns)
{
	const uint64_t end = tek__now(CLOCK_MONOTONIC) + ns;
	struct tek_carrier *spare;
	uint64_t now;

	atomic_fetch_add(&spares.waiting, 1);
	while (!(spare = tek_ut__carrier_spare()) && (now = tek__now(CLOCK_MONOTONIC)) < end) {
		const struct timespec left = tek__timespec_of(end - now);
		tek_ut__supplier_check();
		syscall(SYS_futex, &spares.count, FUTEX_WAIT_PRIVATE, 0, &left, NULL, 0);
	}
	atomic_fetch_sub(&spares.waiting, 1);
	return spare;
}

struct tek_carrier *tek_ut__carrier_new(void)
{
	const size_t bytes = (sizeof(struct tek_carrier) + 63) / 64 * 64;

	tek_ut__spin_lock(&spares.lock);
	struct tek_carrier *carrier = take(&spares.dropped);
	tek_ut__spin_unlock(&spares.lock);
	if (carrier)
		return carrier;
	carrier = aligned_alloc(64, bytes);
	if (carrier) {
		memset(carrier, 0, bytes);
		carrier->timer = -1; /* its ticks may start as soon as it has a worker */
	}
	return carrier;
}

void tek_ut__carrier_drop(struct tek_carrier *carrier)
{
	tek_ut__spin_lock(&spares.lock);
	carrier->next = spares.dropped;
	spares.dropped = carrier;
	tek_ut__spin_unlock(&spares.lock);
}

void tek_ut__spares_after_fork(void)
{
	memset(&spares, 0, sizeof(spares));
}
