/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * libtek-libm-musl.so: the mathematical functions of musl (MIT licence), out of its archive.
 * lgamma() is not among them: it has a variable, signgam, of which there can be one.  Unlike the C
 * library's own they leave errno alone, and tell of errors by floating-point exceptions only:
 * math_error(7).
 */
extern const char tek_libm_musl[];
const char tek_libm_musl[] = "the mathematical functions of musl, for tek run --libm musl";
