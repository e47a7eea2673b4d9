/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef TEK_IDENT_CXX_NAME_H
#define TEK_IDENT_CXX_NAME_H

#include <stddef.h>

/*
 * Where the address of the function lies in a state whose class has this name (mangled, as in
 * the type information; Itanium C++ ABI, 5.1), in bytes; 0 if it runs something else or has
 * arguments whose size the name does not tell.
 */
size_t tek__cxx_function_offset(const char *class_name);

#endif
