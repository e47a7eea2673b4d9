/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "place/local.h"

#include "base/page.h"
#include "threads/area.h"
#include "threads/present.h"

#include <errno.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MOVE_OWN 2 /* MPOL_MF_MOVE of <linux/mempolicy.h>: pages that no other process has */

unsigned int tek__local_strangers(void *pages[], const int status[], unsigned int count, int own)
{
	unsigned int strangers = 0;

	for (unsigned int i = 0; i < count; i++) {
		if (status[i] >= 0 && status[i] != own)
			pages[strangers++] = pages[i];
	}
	return strangers;
}

/* False: the kernel does not know of nodes, or does not let us. */
static bool move_here(void *pages[], unsigned int count, int own)
{
	int status[TEK_LOCAL_PAGES], nodes[TEK_LOCAL_PAGES];

	if (syscall(SYS_move_pages, 0, (unsigned long)count, pages, NULL, status, 0))
		return false;
	unsigned int strangers = tek__local_strangers(pages, status, count, own);
	if (strangers == 0)
		return true;
	for (unsigned int i = 0; i < strangers; i++)
		nodes[i] = own;
	/* A page that cannot be moved stays: that is no error. */
	return syscall(SYS_move_pages, 0, (unsigned long)strangers, pages, nodes, status,
		       MOVE_OWN) >= 0;
}

void tek__local_own_stack(void)
{
	void *pages[TEK_LOCAL_PAGES];
	unsigned int cpu, node, count = 0;
	struct tek_area area;
	struct tek_run run;
	int saved = errno;

	if (syscall(SYS_getcpu, &cpu, &node, NULL) || !tek__area_of_self(&area) || area.first ||
	    area.guard_bytes == 0)
		goto out;
	for (uintptr_t at = area.low; tek__present_lowest(at, area.end, TEK_LOCAL_PAGES, &run);
	     at = run.end) {
		if (run.low == area.end)
			break;
		for (uintptr_t page = run.low; page < run.end; page += tek__page_bytes) {
			pages[count++] = (void *)page;
			if (count == TEK_LOCAL_PAGES) {
				if (!move_here(pages, count, (int)node))
					goto out;
				count = 0;
			}
		}
	}
	if (count)
		move_here(pages, count, (int)node);
out:
	errno = saved;
}
