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
	cmp	r0, #0
	beq	1f
	bx	r0
1:	mov	ip, r7
	mov	r7, #190 /* SYS_vfork */
	svc	#0
	mov	r7, ip
	cmp	r0, #0
	beq	2f
	cmn	r0, #4096
	bhi	3f
	bx	lr
2:	/* in the child */
	push	{r3, lr}
	bl	tek__vfork_in_child
	pop	{r3, lr}
	mov	r0, #0
	bx	lr
3:	b	tek__vfork_failed
	.size	vfork, .-vfork
	.section .note.GNU-stack, "", %progbits
