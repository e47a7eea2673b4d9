/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * streamcluster - clusters a stream of points as it comes (rtos-linux-scalability-2018, 4.4): each
 * block of it becomes a few weighted centres, and those are clustered at the end.
 *
 * Fork-join with very many barriers and little work between two.  The size is the number of points.
 */
#include "file.h"
#include "fingerprint.h"
#include "kmedian.h"
#include "program.h"
#include "random.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 512
#define LEAST_CENTRES 10
#define MOST_CENTRES 20
#define PLANTED 10 /* clusters that the points are made from */
#define RADIUS 0.1

static const struct program_about about = {
	.name = "streamcluster",
	.size = 32768,
	.least_size = 256,
	.most_size = 1u << 20,
	.has_files = true,
	.has_barrier = true,
};

static struct point *points, *centres;
static uint32_t centre_count;
static struct assignment assignment;
static float planted[PLANTED][DIMENSIONS];

static void generate(void)
{
	struct random random = {4};

	for (unsigned int i = 0; i < PLANTED; i++)
		for (unsigned int k = 0; k < DIMENSIONS; k++)
			planted[i][k] = (float)random_unit(&random);
	for (uint64_t i = 0; i < program.size; i++) {
		const float *middle = planted[random_below(&random, PLANTED)];
		for (unsigned int k = 0; k < DIMENSIONS; k++)
			points[i].at[k] = middle[k] +
					  (float)(RADIUS * (2 * random_unit(&random) - 1));
		points[i].weight = 1;
	}
}

/*
 * Puts the centres that were chosen of a block behind `to`, each with the weight of those that it
 * stands for.
 */
static uint32_t gather(const struct point *block, uint32_t count, struct point *to)
{
	uint32_t *place = program_memory(calloc(count, sizeof(*place)));
	uint32_t found = 0;

	for (uint32_t i = 0; i < count; i++) {
		if (assignment.centre[i] != i)
			continue;
		place[i] = found;
		to[found] = block[i];
		to[found++].weight = 0;
	}
	for (uint32_t i = 0; i < count; i++)
		to[place[assignment.centre[i]]].weight += block[i].weight;
	free(place);
	return found;
}

static void cluster(void)
{
	for (uint64_t begin = 0; begin < program.size; begin += BLOCK) {
		uint64_t left = program.size - begin;
		uint32_t count = (uint32_t)(left < BLOCK ? left : BLOCK);
		program_enter(PARALLEL);
		kmedian(&points[begin], count, LEAST_CENTRES, MOST_CENTRES, &assignment,
			&program.barriers);
		program_enter(SERIAL);
		centre_count += gather(&points[begin], count, &centres[centre_count]);
	}
}

/* The last centres, from those of the blocks. */
static struct point *finish(uint32_t *count)
{
	struct point *last = program_memory(calloc(centre_count, sizeof(*last)));

	program_enter(PARALLEL);
	kmedian(centres, centre_count, LEAST_CENTRES, MOST_CENTRES, &assignment, &program.barriers);
	program_enter(SERIAL);
	*count = gather(centres, centre_count, last);
	return last;
}

static int64_t nearest(const struct point *point, const float *place, size_t stride, uint32_t count)
{
	int64_t least = INT64_MAX;

	for (uint32_t i = 0; i < count; i++) {
		int64_t distance = place_distance(point->at, place + i * stride);
		if (distance < least)
			least = distance;
	}
	return least;
}

/*
 * Whether they stand for all points, and are no more than twice as far from them as where the
 * points come from.
 */
static bool check(const struct point *last, uint32_t count)
{
	int64_t cost = 0, planted_cost = 0, weight = 0;

	for (uint32_t i = 0; i < count; i++)
		weight += last[i].weight;
	for (uint64_t i = 0; i < program.size; i++) {
		cost += nearest(&points[i], last->at, sizeof(*last) / sizeof(float), count);
		planted_cost += nearest(&points[i], planted[0], DIMENSIONS, PLANTED);
	}
	return weight == (int64_t)program.size && count > 0 && cost <= 2 * planted_cost + (1 << 20);
}

static void write_centres(FILE *file, const struct point *last, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		fprintf(file, "%" PRId64, last[i].weight);
		for (unsigned int k = 0; k < DIMENSIONS; k++)
			fprintf(file, " %.6f", (double)last[i].at[k]);
		fputc('\n', file);
	}
	fflush(file);
}

int main(int argc, char **argv)
{
	struct point *last;
	uint32_t count;
	FILE *output;
	char result[17];

	program_begin(argc, argv, &about);
	points = program_memory(calloc(program.size, sizeof(*points)));
	centres = program_memory(calloc(program.size, sizeof(*centres)));
	assignment.centre = program_memory(calloc(program.size, sizeof(*assignment.centre)));
	assignment.cost = program_memory(calloc(program.size, sizeof(*assignment.cost)));
	generate();
	program_forget();

	cluster();
	last = finish(&count);
	program_enter(FILES);
	output = file_create();
	write_centres(output, last, count);
	program_stop();

	snprintf(result, sizeof(result), "%016" PRIx64, file_fingerprint(output));
	file_close(output);
	bool right = check(last, count);
	free(last);
	free(points);
	free(centres);
	free(assignment.centre);
	free(assignment.cost);
	return program_end(result, right);
}
