/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "threads/attributes.h"

#include <string.h>

void tek__attributes_decode(const struct tek_record *record, const struct tek_side *side,
			    size_t page_bytes, struct tek_attributes *attributes)
{
	memcpy(attributes->role, side->role, sizeof(attributes->role));
	attributes->role[record->role_bytes < TEK_ROLE_BYTES ? record->role_bytes : 0] = '\0';
	attributes->critical = (record->flags & TEK_FLAG_MARKED) != 0;
	attributes->group = record->place & TEK_PLACE_GROUP_MASK;
	bool own = record->policy != TEK_SCHED_POLICY || record->flags & TEK_FLAG_ASKED;
	attributes->policy = own ? record->policy : side->own_policy;
	attributes->priority = own ? record->priority : side->own_priority;
	attributes->tid = (pid_t)record->tid;
	attributes->created_ns = record->start_ns;
	attributes->stack_bytes = (uint64_t)record->stack_pages * page_bytes;
	attributes->peak_bytes = record->peak_bytes;
	attributes->vm_bytes = 0;
}
