/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Reads the type names of std::thread states (base/cxx_thread.h). No lock, no allocation. */
#ifndef TEK_BASE_CXX_NAME_H
#define TEK_BASE_CXX_NAME_H

#include <stddef.h>

/*
 * The offset of the function's address in a state of the class with this name (mangled, as in the
 * type information; Itanium C++ ABI, 5.1), in bytes. 0: it runs something else, or the name does
 * not give the size of its arguments.
 */
size_t tek__cxx_function_offset(const char *class_name);

#endif
