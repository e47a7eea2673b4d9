/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads that end, and the count of records in use. */
#ifndef TESTS_LIFE_SUPPORT_H
#define TESTS_LIFE_SUPPORT_H

#include "patience.h"
#include "rounds.h"
#include "support.h"

/* This process's own table, as another process would read it. */
static inline unsigned int threads_in_table(void)
{
	char path[128];
	struct tek_table_header header = {0};
	const char *directory = getenv("TEK_RUN_DIR");

	snprintf(path, sizeof(path), "%s/%d.table", directory ? directory : "/run/tek",
		 (int)getpid());
	FILE *file = fopen(path, "r");
	if (!file)
		return 0;
	size_t got = fread(&header, sizeof(header), 1, file);
	fclose(file);
	assert_int_equal(got, 1);
	assert_true(header.magic == TEK_TABLE_MAGIC);
	return header.threads;
}

static inline void *nothing(void *argument)
{
	return argument;
}

static inline void *create_and_join(void *argument)
{
	for (int i = 0, end = rounds(300); i < end; i++) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, nothing, NULL) == 0)
			pthread_join(thread, NULL);
	}
	return argument;
}

#endif
