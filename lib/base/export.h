/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Marks a symbol that a library exports. All other functions and variables are hidden in it. */
#ifndef TEK_BASE_EXPORT_H
#define TEK_BASE_EXPORT_H

#define TEK_EXPORT __attribute__((visibility("default")))

#endif
