/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef TEK_BASE_UTF8_H
#define TEK_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Whether the bytes are UTF-8 (RFC 3629: shortest forms, no surrogates), in any locale. */
bool tek__is_utf8(const char *bytes, size_t length);

#endif
