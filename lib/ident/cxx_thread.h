/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a std::thread of GNU's C++ library runs.  All of them have one start routine,
 * in that library, and as its argument a std::thread::_State: an object with a virtual
 * function, whose class is made for the type of what the thread runs.  So its vtable
 * tells lambdas and function objects apart, and where the type is a plain function or a
 * member function the object holds its address.
 *
 * Functions that need no lock and must not be called under it.
 */
#ifndef TEK_IDENT_CXX_THREAD_H
#define TEK_IDENT_CXX_THREAD_H

#include <stdint.h>

/* The name in the type information of a class with this vtable; NULL: there is none. */
const char *tek__cxx_class_of(uintptr_t vtable);

/*
 * The address that stands for what a std::thread runs: its function or, if that cannot be told, the
 * vtable of its state.  `routine` where the argument is none.
 */
uintptr_t tek__cxx_function(uintptr_t routine, const void *argument);

#endif
