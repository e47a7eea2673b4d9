/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Attributes of a thread, by its handle. */
#ifndef TESTS_ATTRIBUTES_SUPPORT_H
#define TESTS_ATTRIBUTES_SUPPORT_H

#include "support.h"

static inline struct tek_attributes attributes_of(pthread_t thread)
{
	struct tek_attributes attributes;
	assert_int_equal(pthread_get_attributes(thread, &attributes), 0);
	return attributes;
}

static inline int set_role(pthread_t thread, const char *role)
{
	struct tek_attributes attributes = {0};
	snprintf(attributes.role, sizeof(attributes.role), "%s", role);
	return tek_thread_set_attributes(thread, TEK_ATTRIBUTE_ROLE, &attributes);
}

#endif
