/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The heap of bounded time (lib/alloc/tlsf.h), without a process around it. */
#include "support.h"

#include "alloc/tlsf.h"
#include "alloc/tlsf_block.h"
#include "alloc/tlsf_check.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

enum { MEMORY = 1 << 20 };

struct place {
	struct tek_tlsf heap;
	unsigned char *memory;
};

static struct place new_heap(size_t bytes)
{
	struct place place = {.memory = aligned_alloc(4096, (bytes + 4095) & ~4095ul)};

	assert_non_null(place.memory);
	memset(place.memory, 0xa5, bytes);
	assert_true(tek_alloc__tlsf_add(&place.heap, place.memory, bytes));
	return place;
}

static void assert_sound(const struct place *place)
{
	const char *wrong = tek_alloc__tlsf_check(&place->heap, place->memory);
	if (wrong)
		fail_msg("%s", wrong);
}

static void a_heap_without_memory_has_none(void **state)
{
	(void)state;
	struct tek_tlsf heap = {0};

	assert_null(tek_alloc__tlsf_allocate(&heap, 1));
	assert_null(tek_alloc__tlsf_allocate_aligned(&heap, 4096, 1));
	assert_false(tek_alloc__tlsf_free(&heap, &heap));
}

static void memory_that_is_too_small_is_not_taken(void **state)
{
	(void)state;
	struct tek_tlsf heap = {0};
	char memory[TEK_TLSF_OVERHEAD - 1];

	assert_false(tek_alloc__tlsf_add(&heap, memory, sizeof(memory)));
	assert_int_equal(heap.bytes, 0);
}

static void memory_may_begin_and_end_anywhere(void **state)
{
	(void)state;
	for (size_t begin = 0; begin < 33; begin++) {
		for (size_t end = 0; end < 33; end++) {
			unsigned char *memory = malloc(512); /* so that ASan sees a step beyond */
			struct tek_tlsf heap = {0};
			assert_true(tek_alloc__tlsf_add(&heap, memory + begin, 512 - begin - end));
			unsigned char *block = tek_alloc__tlsf_allocate(&heap, 300);
			assert_non_null(block);
			assert_int_equal((uintptr_t)block % TEK_TLSF_ALIGNMENT, 0);
			memset(block, 1, tek_alloc__tlsf_usable(block));
			assert_true(block >= memory + begin &&
				    block + tek_alloc__tlsf_usable(block) <= memory + 512 - end);
			assert_true(tek_alloc__tlsf_free(&heap, block));
			assert_null(tek_alloc__tlsf_check(&heap, memory + begin));
			free(memory);
		}
	}
}

/* A heap grows by enough for the one block that it grew for. */
static void a_block_fits_into_memory_of_its_size_and_the_overhead(void **state)
{
	(void)state;
	for (size_t bytes = 0; bytes < 5000; bytes += 7) {
		struct place place = new_heap(bytes + sizeof(size_t) + 64 + TEK_TLSF_OVERHEAD);
		assert_non_null(tek_alloc__tlsf_allocate(&place.heap, bytes));
		free(place.memory);
	}
}

static void blocks_of_no_bytes_are_blocks(void **state)
{
	(void)state;
	struct place place = new_heap(MEMORY);
	void *one = tek_alloc__tlsf_allocate(&place.heap, 0),
	     *other = tek_alloc__tlsf_allocate(&place.heap, 0);

	assert_non_null(one);
	assert_non_null(other);
	assert_ptr_not_equal(one, other);
	free(place.memory);
}

static void what_is_too_large_is_refused_and_nothing_changes(void **state)
{
	(void)state;
	static const size_t sizes[] = {MEMORY,       MOST - 100,   MOST,    MOST + 1,
				       SIZE_MAX / 2, SIZE_MAX - 8, SIZE_MAX};
	struct place place = new_heap(MEMORY);

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		assert_null(tek_alloc__tlsf_allocate(&place.heap, sizes[i]));
		assert_null(tek_alloc__tlsf_allocate_aligned(&place.heap, 64, sizes[i]));
		assert_null(tek_alloc__tlsf_allocate_aligned(&place.heap, (SIZE_MAX >> 1) + 1,
							     sizes[i]));
	}
	assert_int_equal(place.heap.used, 0);
	assert_sound(&place);
	free(place.memory);
}

static void neighbours_that_are_free_become_one_block(void **state)
{
	(void)state;
	struct place place = new_heap(MEMORY);
	void *blocks[100];
	static const int orders[][2] = {{0, 1}, {99, -1}, {0, 37}};

	for (size_t order = 0; order < 3; order++) {
		for (int i = 0; i < 100; i++)
			assert_non_null(blocks[i] = tek_alloc__tlsf_allocate(&place.heap, 9000));
		for (int i = 0, next = orders[order][0]; i < 100; i++) {
			assert_true(tek_alloc__tlsf_free(&place.heap, blocks[next]));
			next = (next + 100 + orders[order][1]) % 100;
		}
		assert_sound(&place);
		void *whole = tek_alloc__tlsf_allocate(&place.heap, MEMORY - 100);
		assert_non_null(whole);
		assert_true(tek_alloc__tlsf_free(&place.heap, whole));
	}
	free(place.memory);
}

static void alignments_hold_up_to_large_ones(void **state)
{
	(void)state;
	struct place place = new_heap(MEMORY);
	void *blocks[64];
	unsigned int count = 0;

	for (size_t alignment = 1; alignment <= 65536; alignment *= 2) {
		for (size_t bytes = 1; bytes < 3000; bytes += 1000) {
			void *block = tek_alloc__tlsf_allocate_aligned(&place.heap, alignment,
								       bytes);
			assert_non_null(block);
			assert_int_equal((uintptr_t)block % alignment, 0);
			memset(block, 7, tek_alloc__tlsf_usable(block));
			assert_sound(&place);
			blocks[count++] = block;
		}
	}
	while (count)
		assert_true(tek_alloc__tlsf_free(&place.heap, blocks[--count]));
	assert_int_equal(place.heap.used, 0);
	assert_sound(&place);
	assert_non_null(tek_alloc__tlsf_allocate(&place.heap, MEMORY - 100));
	free(place.memory);
}

static void a_block_grows_into_free_memory_behind_it(void **state)
{
	(void)state;
	struct place place = new_heap(MEMORY);
	char *block = tek_alloc__tlsf_allocate(&place.heap, 100);
	char *behind = tek_alloc__tlsf_allocate(&place.heap, 1000);
	void *end = tek_alloc__tlsf_allocate(&place.heap, 16);

	memset(block, 3, 100);
	assert_false(tek_alloc__tlsf_resize(&place.heap, block, 500));
	tek_alloc__tlsf_free(&place.heap, behind);
	assert_true(tek_alloc__tlsf_resize(&place.heap, block, 500));
	assert_true(tek_alloc__tlsf_usable(block) >= 500);
	assert_false(tek_alloc__tlsf_resize(&place.heap, block, 2000));
	assert_true(tek_alloc__tlsf_resize(&place.heap, block, 20));
	assert_true(tek_alloc__tlsf_usable(block) < 100);
	for (int i = 0; i < 20; i++)
		assert_int_equal(block[i], 3);
	assert_sound(&place);
	tek_alloc__tlsf_free(&place.heap, end);
	tek_alloc__tlsf_free(&place.heap, block);
	assert_int_equal(place.heap.used, 0);
	free(place.memory);
}

static void what_is_no_block_is_not_freed(void **state)
{
	(void)state;
	struct place place = new_heap(MEMORY);
	char *block = tek_alloc__tlsf_allocate(&place.heap, 100), on_stack[64];

	assert_false(tek_alloc__tlsf_free(&place.heap, block + 1));
	assert_false(tek_alloc__tlsf_free(&place.heap, on_stack));
	assert_true(tek_alloc__tlsf_free(&place.heap, block));
	assert_false(tek_alloc__tlsf_free(&place.heap, block)); /* twice */
	assert_sound(&place);
	free(place.memory);
}

/* The expected state of the heap: blocks by address, each filled with a byte of its own. */
struct model {
	unsigned char *block;
	size_t bytes;
	unsigned char fill;
};

static void assert_retained(const struct model *model)
{
	for (size_t i = 0; i < model->bytes; i++)
		if (model->block[i] != model->fill)
			fail_msg("byte %zu of %zu is not its owner's", i, model->bytes);
}

static size_t random_bytes(unsigned int *seed)
{
	const unsigned int kind = (unsigned int)rand_r(seed) % 8;
	const size_t most = kind < 5 ? 256 : kind < 7 ? 5000 : 60000;
	return (size_t)rand_r(seed) % most;
}

static void keep(struct place *place, struct model *model, unsigned char *block, size_t bytes,
		 unsigned char fill)
{
	*model = (struct model){block, bytes, fill};
	assert_true(tek_alloc__tlsf_usable(block) >= bytes);
	assert_true(block > place->memory && block + bytes < place->memory + MEMORY);
	memset(block, fill, tek_alloc__tlsf_usable(block));
}

static void step(struct place *place, struct model *model, unsigned int *seed)
{
	const size_t bytes = random_bytes(seed);
	const unsigned char fill = (unsigned char)rand_r(seed);

	if (!model->block) {
		const size_t alignment = (size_t)1 << (unsigned int)rand_r(seed) % 13;
		unsigned char *block = tek_alloc__tlsf_allocate_aligned(&place->heap, alignment,
									bytes);
		if (block) {
			assert_int_equal((uintptr_t)block % alignment, 0);
			keep(place, model, block, bytes, fill);
		}
		return;
	}
	assert_retained(model);
	if (rand_r(seed) % 3) {
		assert_true(tek_alloc__tlsf_free(&place->heap, model->block));
		*model = (struct model){0};
	} else if (tek_alloc__tlsf_resize(&place->heap, model->block, bytes)) {
		model->bytes = bytes < model->bytes ? bytes : model->bytes;
		assert_retained(model);
		keep(place, model, model->block, bytes, fill);
	}
}

static void any_sequence_keeps_what_the_program_wrote(void **state)
{
	(void)state;
	enum { SEEDS = 20, STEPS = 20000, MODELS = 300 };
	for (unsigned int first_seed = 1; first_seed <= SEEDS; first_seed++) {
		static struct model models[MODELS];
		struct place place = new_heap(MEMORY);
		unsigned int seed = first_seed;

		memset(models, 0, sizeof(models));
		for (int i = 0; i < STEPS; i++) {
			step(&place, &models[rand_r(&seed) % MODELS], &seed);
			if (i % 1000 == 0)
				assert_sound(&place);
		}
		for (int i = 0; i < MODELS; i++)
			if (models[i].block)
				assert_true(tek_alloc__tlsf_free(&place.heap, models[i].block));
		assert_int_equal(place.heap.used, 0);
		assert_sound(&place);
		assert_non_null(tek_alloc__tlsf_allocate(&place.heap, MEMORY - 100));
		free(place.memory);
	}
}

static void several_pieces_of_memory_are_one_heap(void **state)
{
	(void)state;
	struct place one = new_heap(65536);
	unsigned char *second = malloc(65536);
	void *blocks[3];

	assert_true(tek_alloc__tlsf_add(&one.heap, second, 65536));
	assert_non_null(blocks[0] = tek_alloc__tlsf_allocate(&one.heap, 60000));
	assert_non_null(blocks[1] = tek_alloc__tlsf_allocate(&one.heap, 60000));
	assert_null(blocks[2] = tek_alloc__tlsf_allocate(&one.heap, 60000));
	assert_true(tek_alloc__tlsf_free(&one.heap, blocks[1]));
	assert_true(tek_alloc__tlsf_free(&one.heap, blocks[0]));
	assert_null(tek_alloc__tlsf_check(&one.heap, one.memory));
	assert_null(tek_alloc__tlsf_check(&one.heap, second));
	free(second);
	free(one.memory);
}

/*
 * Fills a heap with blocks of two sizes of one class, and with small blocks between them, so that
 * freed blocks do not merge.
 */
static void a_block_that_was_freed_serves_a_request_for_as_much(void **state)
{
	enum { BLOCKS = 40, BYTES = 5000, LESS = 4980 };
	struct place place = new_heap(MEMORY / 4);
	void *blocks[BLOCKS], *less, *rest;

	(void)state;
	for (int i = 0; i < BLOCKS; i++) {
		assert_non_null(blocks[i] = tek_alloc__tlsf_allocate(&place.heap, BYTES));
		assert_non_null(tek_alloc__tlsf_allocate(&place.heap, 16));
	}
	assert_non_null(less = tek_alloc__tlsf_allocate(&place.heap, LESS));
	for (size_t bytes = MEMORY; bytes >= 16; bytes -= 16)
		while ((rest = tek_alloc__tlsf_allocate(&place.heap, bytes)))
			;
	for (int i = 0; i < BLOCKS; i++)
		assert_true(tek_alloc__tlsf_free(&place.heap, blocks[i]));
	assert_true(tek_alloc__tlsf_free(&place.heap, less));
	for (int i = 0; i < BLOCKS; i++)
		assert_non_null(tek_alloc__tlsf_allocate(&place.heap, BYTES));
	assert_null(tek_alloc__tlsf_allocate(&place.heap, BYTES));
	assert_non_null(tek_alloc__tlsf_allocate(&place.heap, LESS));
	assert_sound(&place);
	free(place.memory);
}

static void an_aligned_block_that_was_freed_serves_a_request_for_one(void **state)
{
	enum { MOST_BLOCKS = 1000, BYTES = 1000, ALIGNED = 256 };
	struct place place = new_heap(MEMORY / 4);
	static void *blocks[MOST_BLOCKS];
	int count = 0;

	(void)state;
	while (count < MOST_BLOCKS &&
	       (blocks[count] = tek_alloc__tlsf_allocate_aligned(&place.heap, ALIGNED, BYTES)))
		count++;
	while (tek_alloc__tlsf_allocate(&place.heap, 16))
		;
	for (int i = 0; i < count; i += 2)
		assert_true(tek_alloc__tlsf_free(&place.heap, blocks[i]));
	for (int i = 0; i < count; i += 2)
		assert_non_null(tek_alloc__tlsf_allocate_aligned(&place.heap, ALIGNED, BYTES));
	assert_sound(&place);
	free(place.memory);
}

static void a_heap_whose_lists_somebody_wrote_to_is_damaged(void **state)
{
	struct place place = new_heap(MEMORY);
	void *blocks[6];

	(void)state;
	for (int i = 0; i < 6; i++)
		assert_non_null(blocks[i] = tek_alloc__tlsf_allocate(&place.heap, 100));
	for (int i = 0; i < 6; i += 2)
		assert_true(tek_alloc__tlsf_free(&place.heap, blocks[i]));
	assert_false(place.heap.is_damaged);
	((void **)blocks[2])[0] = place.heap.lists; /* a write after free */
	assert_true(tek_alloc__tlsf_free(&place.heap, blocks[1]));
	assert_true(place.heap.is_damaged);
	free(place.memory);
}

/* For what a signal finds: the heap in the midst of anything. */
enum { INTERRUPTED_MODELS = 100 };
static struct place interrupted;
static struct model interrupted_models[INTERRUPTED_MODELS];
static volatile int at_work; /* on which of them */
static volatile int children, failures;

static int what_a_child_finds(void)
{
	size_t used = 0;

	tek_alloc__tlsf_rebuild(&interrupted.heap);
	if (tek_alloc__tlsf_check(&interrupted.heap, interrupted.memory))
		return 1;
	for (int i = 0; i < INTERRUPTED_MODELS; i++) {
		struct model *model = &interrupted_models[i];
		if (i == at_work || !model->block)
			continue;
		used += tek_alloc__tlsf_usable(model->block) + sizeof(size_t);
		for (size_t at = 0; at < model->bytes; at++)
			if (model->block[at] != model->fill)
				return 2;
	}
	/* The interrupted operation is on 60000 bytes at most, or on two such blocks. */
	if (interrupted.heap.used < used || interrupted.heap.used > used + 130000)
		return 3;
	for (int i = 0; i < INTERRUPTED_MODELS; i++)
		if (i != at_work && interrupted_models[i].block &&
		    !tek_alloc__tlsf_free(&interrupted.heap, interrupted_models[i].block))
			return 4;
	return tek_alloc__tlsf_check(&interrupted.heap, interrupted.memory) ? 5 : 0;
}

/* Once: with a sanitizer a fork takes long, and something has to happen between two. */
static void interrupt_soon(void)
{
	const struct itimerval soon = {.it_value.tv_usec = 300};
	setitimer(ITIMER_REAL, &soon, NULL);
}

static void fork_in_the_midst(int number)
{
	const int saved = errno;
	int status = 0;
	pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);

	(void)number;
	if (child == 0)
		_exit(what_a_child_finds());
	waitpid(child, &status, 0);
	children++;
	if (status)
		failures = status;
	interrupt_soon();
	errno = saved;
}

static void a_copy_from_the_midst_of_an_operation_can_be_made_sound(void **state)
{
	const struct sigaction action = {.sa_handler = fork_in_the_midst, .sa_flags = SA_RESTART};
	const struct itimerval never = {0};
	unsigned int seed = 4;

	(void)state;
	interrupted = new_heap(MEMORY);
	sigaction(SIGALRM, &action, NULL);
	interrupt_soon();
	while (children < 200 && !failures) {
		at_work = rand_r(&seed) % INTERRUPTED_MODELS;
		step(&interrupted, &interrupted_models[at_work], &seed);
	}
	setitimer(ITIMER_REAL, &never, NULL);
	assert_int_equal(failures, 0);
	free(interrupted.memory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_heap_without_memory_has_none),
		cmocka_unit_test(memory_that_is_too_small_is_not_taken),
		cmocka_unit_test(memory_may_begin_and_end_anywhere),
		cmocka_unit_test(a_block_fits_into_memory_of_its_size_and_the_overhead),
		cmocka_unit_test(blocks_of_no_bytes_are_blocks),
		cmocka_unit_test(what_is_too_large_is_refused_and_nothing_changes),
		cmocka_unit_test(neighbours_that_are_free_become_one_block),
		cmocka_unit_test(alignments_hold_up_to_large_ones),
		cmocka_unit_test(a_block_grows_into_free_memory_behind_it),
		cmocka_unit_test(what_is_no_block_is_not_freed),
		cmocka_unit_test(any_sequence_keeps_what_the_program_wrote),
		cmocka_unit_test(several_pieces_of_memory_are_one_heap),
		cmocka_unit_test(a_block_that_was_freed_serves_a_request_for_as_much),
		cmocka_unit_test(an_aligned_block_that_was_freed_serves_a_request_for_one),
		cmocka_unit_test(a_heap_whose_lists_somebody_wrote_to_is_damaged),
		cmocka_unit_test(a_copy_from_the_midst_of_an_operation_can_be_made_sound),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
