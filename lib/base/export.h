/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The symbols of a library: without this a function or variable is hidden in it. */
#ifndef TEK_BASE_EXPORT_H
#define TEK_BASE_EXPORT_H

#define TEK_EXPORT __attribute__((visibility("default")))

#endif
