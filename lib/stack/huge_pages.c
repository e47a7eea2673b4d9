/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stack/huge_pages.h"

#include "base/page.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char directory[] = "/sys/kernel/mm/transparent_hugepage";

enum {
	PATH_BYTES = 320,
	TEXT_BYTES = 128,
	USUAL_BYTES = 2 << 20, /* of a huge page, where the kernel does not say */
	MOST_BYTES = 1 << 30,  /* larger ones are for no anonymous memory */
};

/* Bytes of the smallest huge page that the kernel gives to all processes; 0: it gives none. */
static size_t smallest;

/* A file below the directory as a string: empty if there is none. */
static void read_text(const char *name, char text[TEXT_BYTES])
{
	char path[PATH_BYTES];

	text[0] = '\0';
	if (snprintf(path, sizeof(path), "%s/%s", directory, name) >= (int)sizeof(path))
		return;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	ssize_t length = read(fd, text, TEXT_BYTES - 1);
	text[length > 0 ? length : 0] = '\0';
	close(fd);
}

static void given(size_t bytes)
{
	if (bytes && (!smallest || bytes < smallest))
		smallest = bytes;
}

/*
 * Each size, a power of two, has a directory of its own since 6.8.  The names are tried one by one:
 * opendir(3) allocates memory, and the allocator may have brought us here.
 */
static void read_sizes(bool inherited)
{
	char name[sizeof("hugepages-1048576kB/enabled")], text[TEXT_BYTES];

	for (size_t bytes = 2 * tek__page_bytes; bytes <= MOST_BYTES; bytes *= 2) {
		snprintf(name, sizeof(name), "hugepages-%ukB/enabled",
			 (unsigned int)(bytes / 1024) & 0x1fffff);
		read_text(name, text);
		if (strstr(text, "[always]") || (inherited && strstr(text, "[inherit]")))
			given(bytes);
	}
}

void tek__huge_pages_start(void)
{
	const int saved = errno;
	char text[TEXT_BYTES];

	read_text("enabled", text);
	bool always = strstr(text, "[always]");
	read_sizes(always);
	if (always && !smallest) {
		read_text("hpage_pmd_size", text);
		size_t bytes = strtoul(text, NULL, 10);
		given(bytes ? bytes : USUAL_BYTES);
	}
	errno = saved;
}

void tek__huge_pages_refuse(uintptr_t low, uintptr_t unused_end, uintptr_t end)
{
	const int saved = errno;

	if (!smallest || end - low < smallest)
		return;
	/* Where memory is locked it stays. */
	if (madvise((void *)low, end - low, MADV_NOHUGEPAGE) == 0 && unused_end > low)
		madvise((void *)low, unused_end - low, MADV_DONTNEED);
	errno = saved;
}
