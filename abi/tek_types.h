/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Integers of one size for C, BPF and Rust, and assertions of where a struct has its fields. */
#ifndef TEK_TYPES_ABI_H
#define TEK_TYPES_ABI_H

typedef unsigned char tek_u8;
typedef signed char tek_s8;
typedef unsigned short tek_u16;
typedef unsigned int tek_u32;
typedef signed int tek_s32;
typedef unsigned long long tek_u64 __attribute__((aligned(8))); /* i386 aligns to 4 */
typedef signed long long tek_s64;

#ifndef __cplusplus
#define TEK_ABI_ASSERT(cond) _Static_assert(cond, #cond)
#else
#define TEK_ABI_ASSERT(cond) static_assert(cond, #cond)
#endif
#define TEK_ABI_AT(type, field, offset) \
	TEK_ABI_ASSERT(__builtin_offsetof(struct type, field) == (offset))

#endif
