/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * blackscholes - prices of European options by the formula of Black and Scholes
 * (rtos-linux-scalability-2018, 4.2).
 *
 * Fork-join: the options are read from a file by one thread, each thread prices its share, and one
 * thread writes the prices.  The size is the number of options; each is priced RUNS times, as the
 * work would be too short otherwise.
 */
#include "file.h"
#include "program.h"
#include "random.h"

#include <err.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#define RUNS 100

struct option {
	double spot, strike, rate, volatility, years;
	char type; /* C call, P put */
};

static const struct program_about about = {
	.name = "blackscholes",
	.size = 65536,
	.least_size = 1,
	.most_size = 10000000,
	.has_files = true,
};

static struct option *options;
static double *prices;

/* The normal distribution: polynomial 26.2.17 of Abramowitz and Stegun, off by less than 7.5e-8. */
static double normal(double x)
{
	static const double b[] = {0.319381530, -0.356563782, 1.781477937, -1.821255978,
				   1.330274429};
	double t = 1 / (1 + 0.2316419 * fabs(x));
	double sum = t * (b[0] + t * (b[1] + t * (b[2] + t * (b[3] + t * b[4]))));
	double tail = exp(-x * x / 2) * 0.39894228040143267794 * sum;

	return x < 0 ? tail : 1 - tail;
}

/* The same by the C library, to check it. */
static double exact_normal(double x)
{
	return erfc(-x * M_SQRT1_2) / 2;
}

static double price(const struct option *it, double (*distribution)(double))
{
	double deviation = it->volatility * sqrt(it->years);
	double drift = (it->rate + it->volatility * it->volatility / 2) * it->years;
	double d1 = (log(it->spot / it->strike) + drift) / deviation;
	double d2 = d1 - deviation;
	double strike_now = it->strike * exp(-it->rate * it->years);

	if (it->type == 'C')
		return it->spot * distribution(d1) - strike_now * distribution(d2);
	return strike_now * distribution(-d2) - it->spot * distribution(-d1);
}

static void price_share(unsigned int number)
{
	uint64_t begin, end;

	program_share(program.size, program.threads, number, &begin, &end);
	for (unsigned int run = 0; run < RUNS; run++) {
		for (uint64_t i = begin; i < end; i++)
			prices[i] = price(&options[i], normal);
		__asm__ volatile("" ::: "memory"); /* each run counts */
	}
}

static void generate(FILE *file)
{
	struct random random = {2018};

	fprintf(file, "%" PRIu64 "\n", program.size);
	for (uint64_t i = 0; i < program.size; i++)
		fprintf(file, "%.2f %.2f %.4f %.2f %.2f %c\n", 40 + 100 * random_unit(&random),
			40 + 100 * random_unit(&random), 0.02 + 0.08 * random_unit(&random),
			0.1 + 0.5 * random_unit(&random), 0.1 + random_unit(&random),
			random_below(&random, 2) ? 'C' : 'P');
}

static void read_options(FILE *file)
{
	uint64_t count;

	rewind(file);
	if (fscanf(file, "%" SCNu64, &count) != 1 || count != program.size)
		errx(EXIT_FAILURE, "the file has no number of options");
	for (uint64_t i = 0; i < count; i++) {
		struct option *it = &options[i];
		if (fscanf(file, "%lf %lf %lf %lf %lf %c", &it->spot, &it->strike, &it->rate,
			   &it->volatility, &it->years, &it->type) != 6)
			errx(EXIT_FAILURE, "option %" PRIu64 " cannot be read", i);
	}
}

static void write_prices(FILE *file)
{
	fprintf(file, "%" PRIu64 "\n", program.size);
	for (uint64_t i = 0; i < program.size; i++)
		fprintf(file, "%.12f\n", prices[i]);
	fflush(file);
}

/* Whether each price in the file is the exact one, as near as the polynomial is. */
static bool check(FILE *file)
{
	uint64_t count, right = 0;

	rewind(file);
	if (fscanf(file, "%" SCNu64, &count) != 1 || count != program.size)
		return false;
	for (uint64_t i = 0; i < count; i++) {
		double found;
		if (fscanf(file, "%lf", &found) != 1)
			return false;
		double limit = 1e-7 * (options[i].spot + options[i].strike);
		right += fabs(found - price(&options[i], exact_normal)) <= limit;
	}
	return right == count;
}

int main(int argc, char **argv)
{
	FILE *input, *output;
	char result[17];
	bool right;

	program_begin(argc, argv, &about);
	input = file_create();
	generate(input);
	program_forget();

	options = program_memory(calloc(program.size, sizeof(*options)));
	prices = program_memory(calloc(program.size, sizeof(*prices)));
	program_enter(FILES);
	read_options(input);
	program_enter(PARALLEL);
	program_run(program.threads, price_share);
	program_enter(FILES);
	output = file_create();
	write_prices(output);
	program_stop();

	right = check(output);
	snprintf(result, sizeof(result), "%016" PRIx64, file_fingerprint(output));
	file_close(input);
	file_close(output);
	free(options);
	free(prices);
	return program_end(result, right);
}
