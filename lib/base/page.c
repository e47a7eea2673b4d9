/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/page.h"

#include <unistd.h>

size_t tek__page_bytes;

void tek__page_start(void)
{
	tek__page_bytes = (size_t)sysconf(_SC_PAGESIZE);
}
