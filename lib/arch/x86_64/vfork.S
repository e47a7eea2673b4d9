/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* pid_t vfork(void): see preload/self.c. */
	.globl	vfork
	.type	vfork, @function
	.text
vfork:
	endbr64
	subq	$8, %rsp
	call	tek__vfork_begin
	addq	$8, %rsp
	jmp	*%rax
	.size	vfork, .-vfork
	.section .note.GNU-stack, "", @progbits
