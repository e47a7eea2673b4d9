/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The reader of programs that are about to run: any bytes for a file. */
#include "exec/c_library.h"
#include "exec/image.h"
#include "exec/target.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;

	if (fd < 0) {
		fd = memfd_create("program", MFD_CLOEXEC);
		tek__target_start();
	}
	if (ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size)
		abort();
	struct tek_verdict verdict = tek__target_examine_fd(fd);
	if ((verdict.fit == TEK_FITS || verdict.fit == TEK_CROSSES) != (verdict.why == NULL))
		abort();
	return 0;
}
