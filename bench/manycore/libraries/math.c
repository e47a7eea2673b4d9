/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The cost of mathematical functions (rtos-linux-scalability-2018, Fig. 5): those of whatever
 * library this program is linked with, or has by `tek run --libm`.  A line of JSON for each: median
 * and least of the rounds, per call, without what the loop costs.
 */
#include "../../response/clock.h"
#include "../../response/median.h"

#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Of which library: linked with it for good, or what the dynamic loader found. */
static const char *libm(void)
{
#ifdef LIBM
	return LIBM;
#else
	Dl_info info;
	void *function = dlsym(RTLD_DEFAULT, "log");
	const char *slash;

	if (!function || !dladdr(function, &info) || !(slash = strrchr(info.dli_fname, '/')))
		return "unknown";
	return strncmp(slash + 1, "libm.so", 7) == 0 ? "glibc" : slash + 1;
#endif
}

enum { INPUTS = 1024, CALLS = 1 << 16, ROUNDS = 9 };

static double inputs[INPUTS];
static volatile double result;

/* Through a variable, so that the compiler calls the library and nothing of its own. */
#define ONE(name) static double (*volatile name##_function)(double) = name;
#define TWO(name) static double (*volatile name##_function)(double, double) = name;
/* Function, and from where to where its arguments are. */
#define FUNCTIONS(one, two) \
	one(log, 1e-3, 1e3) one(log10, 1e-3, 1e3) one(log2, 1e-3, 1e3) one(log1p, 1e-3, 1e3) \
		one(exp, -20, 20) one(exp2, -20, 20) one(expm1, -20, 20) two(pow, 0.1, 20) one( \
			sin, -100, 100) one(cos, -100, 100) one(tan, -100, 100) one(asin, -1, 1) \
			one(acos, -1, 1) one(atan, -100, 100) two(atan2, -100, 100) \
				one(sinh, -10, 10) one(cosh, -10, 10) one(tanh, -10, 10) \
					one(sqrt, 0, 1e6) one(cbrt, 0, 1e6) one(erf, -3, 3) \
						two(hypot, 0, 1e3) two(fmod, 0.1, 1e3) \
							one(floor, -1e3, 1e3)
#define DECLARE_ONE(name, from, to) ONE(name)
#define DECLARE_TWO(name, from, to) TWO(name)
FUNCTIONS(DECLARE_ONE, DECLARE_TWO)

static double nothing(double x)
{
	return x;
}
ONE(nothing)

static void fill(double from, double to)
{
	uint64_t random = 88172645463325252u;

	for (int i = 0; i < INPUTS; i++) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		inputs[i] = from + (to - from) * (double)(random >> 11) * 0x1p-53;
	}
}

static double round_of_one(double (*function)(double))
{
	const uint64_t begin = clock_ns();
	double sum = 0;

	for (int i = 0; i < CALLS; i++)
		sum += function(inputs[i % INPUTS]);
	result = sum;
	return (double)(clock_ns() - begin) / CALLS;
}

static double round_of_two(double (*function)(double, double))
{
	const uint64_t begin = clock_ns();
	double sum = 0;

	for (int i = 0; i < CALLS; i++)
		sum += function(inputs[i % INPUTS], inputs[(i + 1) % INPUTS]);
	result = sum;
	return (double)(clock_ns() - begin) / CALLS;
}

static void print(const char *name, double *rounds, double loop)
{
	const double middle = median(rounds, ROUNDS);

	printf("{\"program\": \"math\", \"libm\": \"%s\", \"function\": \"%s\", \"ns\": %.2f, "
	       "\"least_ns\": %.2f}\n",
	       libm(), name, fmax(middle - loop, 0), fmax(rounds[0] - loop, 0));
}

#define MEASURE(name, round, from, to) \
	if (!only || strcmp(only, #name) == 0) { \
		fill(from, to); \
		for (int i = 0; i < ROUNDS; i++) \
			rounds[i] = round(name##_function); \
		print(#name, rounds, loop); \
		measured++; \
	}
#define MEASURE_ONE(name, from, to) MEASURE(name, round_of_one, from, to)
#define MEASURE_TWO(name, from, to) MEASURE(name, round_of_two, from, to)

int main(int argc, char **argv)
{
	const char *only = argc > 1 ? argv[1] : NULL;
	double rounds[ROUNDS], loop = 1e9;
	int measured = 0;

	fill(0, 1);
	for (int i = 0; i < ROUNDS; i++)
		loop = fmin(loop, round_of_one(nothing_function));
	FUNCTIONS(MEASURE_ONE, MEASURE_TWO)
	if (!measured) {
		fprintf(stderr, "math: %s is none of the functions that are measured\n", only);
		return 2;
	}
	return 0;
}
