/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * writer - a real-time task that writes to a file in each period (kernel-threads-wapip-2007, Figs.
 * 2 and 7), and how long each write took from the beginning of its period.
 */
#include "periodic.h"

#include <err.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static const char help[] = "Usage: writer [options] FILE\n"
			   "Writes in each period, from the first to the second time of a line "
			   "`FROM TO` on standard input.\n"
			   "\n"
			   "  --bytes N         of each write (default 4096)\n"
			   "  --period-us N     (default 0: one write after the other)\n"
			   "  --count N         at most so many writes\n"
			   "  --priority N      SCHED_FIFO of this priority\n"
			   "  --cpu N           stay on this CPU\n"
			   "  --files N         FILE0, FILE1 ... in turn\n"
			   "  --file-bytes N    begin anew after so many bytes (default 64 MiB)\n"
			   "  --direct          past the page cache\n"
			   "  --sync            each write waits for the disk\n"
			   "  --sample-ms N     look at dirty and free pages in this period\n"
			   "  --help            this text\n";

static void write_once(const struct periodic *task, int fd, uint64_t iteration)
{
	uint64_t places = task->file_bytes / task->bytes;
	off_t at = (off_t)(iteration % places * task->bytes);
	if (pwrite(fd, task->buffer, task->bytes, at) != (ssize_t)task->bytes)
		err(EXIT_FAILURE, "cannot write %s", task->path);
}

int main(int argc, char **argv)
{
	struct periodic task = periodic_parse(argc, argv, help);
	periodic_run(&task, O_WRONLY | O_CREAT, write_once);
	return EXIT_SUCCESS;
}
