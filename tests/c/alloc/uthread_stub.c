/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A library that is named as the engine is, with nothing in it. */
__attribute__((visibility("default"))) void tek_uthread_stub(void);

void tek_uthread_stub(void) {}
