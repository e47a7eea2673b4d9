/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* pid_t vfork(void): see preload/self.c. */
	.globl	vfork
	.type	vfork, %function
	.text
vfork:
	.cfi_startproc
	hint	#34 /* bti c */
	stp	x29, x30, [sp, #-16]!
	.cfi_adjust_cfa_offset 16
	.cfi_rel_offset x30, 8
	bl	tek__vfork_begin
	ldp	x29, x30, [sp], #16
	.cfi_restore x30
	.cfi_adjust_cfa_offset -16
	cbz	x0, 1f
	mov	x16, x0 /* what a landing pad lets in */
	br	x16
1:	mov	x0, #0x4111 /* CLONE_VM | CLONE_VFORK | SIGCHLD */
	mov	x1, #0
	mov	x2, #0
	mov	x3, #0
	mov	x4, #0
	mov	x8, #220 /* SYS_clone */
	svc	#0
	cbz	x0, 2f
	cmn	x0, #4095
	b.cs	3f
	ret
2:	/* in the child */
	stp	x29, x30, [sp, #-16]!
	.cfi_adjust_cfa_offset 16
	.cfi_rel_offset x30, 8
	bl	tek__vfork_in_child
	ldp	x29, x30, [sp], #16
	.cfi_restore x30
	.cfi_adjust_cfa_offset -16
	mov	x0, #0
	ret
3:	b	tek__vfork_failed
	.cfi_endproc
	.size	vfork, .-vfork
	.section .note.GNU-stack, "", %progbits
