/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/sync/variable.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* /proc/self/environ is read byte by byte: NAME=VALUE, with a zero behind each. */
struct reading {
	const char *name;
	size_t matched; /* so many bytes of the entry are those of "NAME="; or OTHER */
	char *value;
	size_t length, size;
	bool fits;
};

#define OTHER ((size_t)-1)

static void take(struct reading *reading, char byte)
{
	const size_t name = strlen(reading->name);

	if (byte == '\0')
		reading->matched = 0;
	else if (reading->matched == OTHER)
		return;
	else if (reading->matched < name + 1)
		reading->matched =
			byte == (reading->matched < name ? reading->name[reading->matched] : '=')
				? reading->matched + 1
				: OTHER;
	else if (reading->length + 1 < reading->size)
		reading->value[reading->length++] = byte;
	else
		reading->fits = false;
}

static bool read_kernels(struct reading *reading)
{
	const int before = errno;
	char bytes[512];
	ssize_t got;
	int fd = open("/proc/self/environ", O_RDONLY | O_CLOEXEC);

	while (fd >= 0 && (got = read(fd, bytes, sizeof(bytes))) > 0)
		for (ssize_t i = 0; i < got; i++)
			take(reading, bytes[i]);
	if (fd >= 0)
		close(fd);
	errno = before;
	reading->value[reading->fits ? reading->length : 0] = '\0';
	return reading->fits;
}

bool tek_sync__variable(const char *name, char *value, size_t size)
{
	struct reading reading = {.name = name, .value = value, .size = size, .fits = true};

	if (!__environ)
		return read_kernels(&reading);
	const char *found = getenv(name);
	const bool fits = !found || strlen(found) < size;
	strcpy(value, found && fits ? found : "");
	return fits;
}
