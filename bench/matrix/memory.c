/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The row in which touch waits for memory, while other processes use more than there is. */
#include "row.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#define ANSWER_BYTES (1 << 20)
#define READERS 2

/* The kernel keeps of the file what it can, and takes it back for others. */
static void read_once(int file, off_t bytes)
{
	static char part[1 << 20];
	for (off_t at = 0; at < bytes; at += (off_t)sizeof(part)) {
		if (pread(file, part, sizeof(part), at) < 0)
			err(EXIT_FAILURE, "cannot read a file");
		background_did();
	}
}

/* A file without content, of which nothing is on the disk. In /tmp none would have pages. */
static void memory_press(void)
{
	const char *directory = getenv("TMPDIR");
	struct sysinfo info;
	char path[4096];
	snprintf(path, sizeof(path), "%s/tek-matrix-XXXXXX", directory ? directory : "/var/tmp");
	const int file = mkstemp(path);
	if (file < 0 || unlink(path))
		err(EXIT_FAILURE, "cannot make the file %s", path);
	if (sysinfo(&info))
		err(EXIT_FAILURE, "cannot ask for the memory");
	const off_t bytes = (off_t)((uint64_t)info.totalram * info.mem_unit / 2 * 3);
	if (ftruncate(file, bytes))
		err(EXIT_FAILURE, "cannot make a file of %lld bytes", (long long)bytes);
	/* Memory is short before the first event. */
	read_once(file, bytes);
	for (unsigned i = 0; i < READERS; i++) {
		if (child_start()) {
			for (;;)
				read_once(file, bytes);
		}
	}
	close(file);
}

static void memory_wait(void)
{
	char *memory = mmap(NULL, ANSWER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);
	if (memory == MAP_FAILED)
		err(EXIT_FAILURE, "cannot allocate memory");
	memset(memory, 1, ANSWER_BYTES);
	munmap(memory, ANSWER_BYTES);
}

const struct row memory_rows[] = {
	{.name = "memory", .press = memory_press, .wait = memory_wait},
	{.name = NULL},
};
