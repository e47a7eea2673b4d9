/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stack/paint.h"

#include "stack/words.h"
#include "threads/present.h"

#include <string.h>

bool tek__paint(uintptr_t low, uintptr_t end)
{
	if (!tek__words_can_write(low, end))
		return false;
	memset((void *)low, TEK_PAINT_BYTE, end - low);
	return true;
}

bool tek__paint_present(uintptr_t low, uintptr_t end, uintptr_t *lowest, bool *holes)
{
	struct tek_run run = {low, low, false};
	bool any = false;

	*lowest = end;
	for (uintptr_t from = low; from < end; from = run.end) {
		if (!tek__present_lowest(from, end, TEK_MANY_PAGES, &run))
			return false;
		if (run.low >= end)
			break;
		run.low = tek__higher(run.low, low);
		*holes |= any && run.low > from;
		if (!any)
			*lowest = run.low;
		any = true;
		if (!tek__paint(run.low, tek__lower(run.end, end)))
			return false;
	}
	return true;
}
