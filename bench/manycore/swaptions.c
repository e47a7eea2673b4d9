/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * swaptions - prices of options on swaps, by Monte-Carlo simulation of the term structure
 * (rtos-linux-scalability-2018, 4.3): the model of Heath, Jarrow and Morton with three factors, in
 * discrete time, with the drift that makes discounted bonds martingales in discrete time too
 * (Glasserman: Monte Carlo Methods in Financial Engineering, 3.6).
 *
 * Fork-join, hardly any synchronisation: each thread prices its swaptions and takes a lock once for
 * each.  The size is the number of trials of each swaption.
 */
#include "fingerprint.h"
#include "program.h"
#include "random.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define SWAPTIONS 128
#define FACTORS 3
#define PERIODS 11 /* of the curve */
#define YEARS 0.5  /* a period */
#define MOST_EXPIRY 6

static const struct program_about about = {
	.name = "swaptions",
	.size = 10000,
	.least_size = 16,
	.most_size = 100000000,
};

struct swaption {
	unsigned int expiry; /* in periods; the swap goes on to the end of the curve */
	double strike;
	/* Means over the trials. */
	double payer, receiver;
	bool right;
};

static struct swaption swaptions[SWAPTIONS];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned int priced, right; /* under the mutex */

static double first_forward(unsigned int period)
{
	return 0.03 + 0.002 * period;
}

/* Of the forward rate of a period that begins in so many periods. */
static double volatility(unsigned int factor, unsigned int ahead)
{
	double years = ahead * YEARS;

	switch (factor) {
	case 0:
		return 0.01;
	case 1:
		return 0.008 * exp(-0.4 * years);
	default:
		return 0.004 * (1 - 0.5 * years);
	}
}

/* Two normal numbers, by Box and Muller. */
static void normals(struct random *random, double *one, double *other)
{
	double radius = sqrt(-2 * log(1 - random_unit(random)));
	double angle = 2 * M_PI * random_unit(random);

	*one = radius * cos(angle);
	*other = radius * sin(angle);
}

/*
 * The effect of one step on the forward rate of the period that begins in `ahead`: see drift in the
 * head.
 */
struct step {
	double drift[PERIODS], volatility[FACTORS][PERIODS];
};

static void prepare(struct step *step)
{
	double sums[FACTORS] = {0}, before = 0;

	for (unsigned int ahead = 0; ahead < PERIODS; ahead++) {
		double now = 0;
		for (unsigned int k = 0; k < FACTORS; k++) {
			step->volatility[k][ahead] = volatility(k, ahead) * sqrt(YEARS);
			sums[k] += volatility(k, ahead);
			now += YEARS / 2 * sums[k] * sums[k];
		}
		step->drift[ahead] = (now - before) * YEARS;
		before = now;
	}
}

/* Lets the curve come to the expiry; returns what 1 then is worth now. */
static double simulate(const struct step *step, unsigned int expiry, double *forward,
		       struct random *random)
{
	double rates = 0;

	for (unsigned int period = 0; period < PERIODS; period++)
		forward[period] = first_forward(period);
	for (unsigned int now = 1; now <= expiry; now++) {
		double z[FACTORS + 1];
		rates += forward[now - 1];
		for (unsigned int k = 0; k < FACTORS; k += 2)
			normals(random, &z[k], &z[k + 1]);
		for (unsigned int period = now; period < PERIODS; period++) {
			double change = step->drift[period - now];
			for (unsigned int k = 0; k < FACTORS; k++)
				change += step->volatility[k][period - now] * z[k];
			forward[period] += change;
		}
	}
	return exp(-rates * YEARS);
}

/* The value at the expiry of a swap that begins then, for the payer of the fixed rate. */
static double swap_value(const struct swaption *it, const double *forward)
{
	double bond = 1, fixed = 0;

	for (unsigned int period = it->expiry; period < PERIODS; period++) {
		bond *= exp(-forward[period] * YEARS);
		fixed += bond * it->strike * YEARS;
	}
	return 1 - bond - fixed;
}

/* The same now, which no model is needed for. */
static double swap_value_now(const struct swaption *it)
{
	double forward[PERIODS], rates = 0;

	for (unsigned int period = 0; period < PERIODS; period++)
		forward[period] = first_forward(period);
	for (unsigned int period = 0; period < it->expiry; period++)
		rates += forward[period];
	return exp(-rates * YEARS) * swap_value(it, forward);
}

/*
 * The right to pay less the right to receive is the swap: their means differ by its value, but for
 * chance.
 */
static void price(struct swaption *it, uint64_t seed)
{
	double *forward = program_memory(malloc(PERIODS * sizeof(*forward)));
	struct step *step = program_memory(malloc(sizeof(*step)));
	struct random random = {seed};
	double sum = 0, squares = 0, mean, deviation, n = (double)program.size;

	prepare(step);
	for (uint64_t trial = 0; trial < program.size; trial++) {
		double discount = simulate(step, it->expiry, forward, &random);
		double value = discount * swap_value(it, forward);
		it->payer += value > 0 ? value : 0;
		it->receiver += value < 0 ? -value : 0;
		sum += value;
		squares += value * value;
	}
	it->payer /= n;
	it->receiver /= n;
	mean = sum / n;
	deviation = sqrt((squares / n - mean * mean) / n);
	it->right = fabs(it->payer - it->receiver - swap_value_now(it)) <= 6 * deviation;
	free(step);
	free(forward);
}

static void price_share(unsigned int number)
{
	uint64_t begin, end;

	program_share(SWAPTIONS, program.threads, number, &begin, &end);
	for (uint64_t i = begin; i < end; i++) {
		price(&swaptions[i], i);
		program_must(pthread_mutex_lock(&mutex), "cannot lock");
		priced++;
		right += swaptions[i].right;
		program_must(pthread_mutex_unlock(&mutex), "cannot unlock");
	}
}

int main(int argc, char **argv)
{
	uint64_t hash = FINGERPRINT_BEGIN;
	char result[17];

	program_begin(argc, argv, &about);
	for (unsigned int i = 0; i < SWAPTIONS; i++) {
		swaptions[i].expiry = 1 + i % MOST_EXPIRY;
		swaptions[i].strike = 0.02 + 0.0003 * i;
	}
	program_enter(PARALLEL);
	program_run(program.threads, price_share);
	program_stop();

	for (unsigned int i = 0; i < SWAPTIONS; i++) {
		hash = fingerprint(hash, &swaptions[i].payer, sizeof(double));
		hash = fingerprint(hash, &swaptions[i].receiver, sizeof(double));
	}
	program.locks = SWAPTIONS;
	snprintf(result, sizeof(result), "%016" PRIx64, hash);
	return program_end(result, priced == SWAPTIONS && right == SWAPTIONS);
}
