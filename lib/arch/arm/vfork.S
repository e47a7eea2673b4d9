/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* pid_t vfork(void): see preload/self.c. */
	.syntax	unified
	.globl	vfork
	.type	vfork, %function
	.text
	.p2align 2
vfork:
	push	{r3, lr}
	bl	tek__vfork_begin
	pop	{r3, lr}
	bx	r0
	.size	vfork, .-vfork
	.section .note.GNU-stack, "", %progbits
