/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * reader - a task that reads from a random place of a file in each period
 * (kernel-threads-wapip-2007, Fig. 12), and how long each read took from the beginning of its
 * period.
 */
#include "periodic.h"

#include <err.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static const char help[] =
	"Usage: reader [options] FILE\n"
	"Reads in each period, from the first to the second time of a line `FROM TO` on standard "
	"input.\n"
	"\n"
	"  --bytes N         of each read (default 4096)\n"
	"  --period-us N     (default 0: one read after the other)\n"
	"  --count N         at most so many reads\n"
	"  --priority N      SCHED_FIFO of this priority\n"
	"  --cpu N           stay on this CPU\n"
	"  --files N         FILE0, FILE1 ... in turn\n"
	"  --file-bytes N    so many bytes of FILE, which has to have them (default 64 MiB)\n"
	"  --direct          past the page cache\n"
	"  --sample-ms N     look at dirty and free pages in this period\n"
	"  --help            this text\n";

/* The same places in each run. */
static uint64_t next_random(void)
{
	static uint64_t x = 88172645463325252ull;
	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x;
}

static void read_once(const struct periodic *task, int fd, uint64_t iteration)
{
	uint64_t places = task->file_bytes / task->bytes;
	off_t at = (off_t)(next_random() % places * task->bytes);

	(void)iteration;
	/* O_DIRECT wants whole blocks. */
	if (pread(fd, task->buffer, task->bytes, at & ~(off_t)4095) != (ssize_t)task->bytes)
		err(EXIT_FAILURE, "cannot read %zu bytes of %s", task->bytes, task->path);
}

int main(int argc, char **argv)
{
	struct periodic task = periodic_parse(argc, argv, help);
	periodic_run(&task, O_RDONLY, read_once);
	return EXIT_SUCCESS;
}
