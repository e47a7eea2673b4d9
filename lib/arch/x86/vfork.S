/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* pid_t vfork(void): see preload/self.c. */
	.globl	vfork
	.type	vfork, @function
	.text
vfork:
	subl	$12, %esp
	call	tek__vfork_begin
	addl	$12, %esp
	jmp	*%eax
	.size	vfork, .-vfork
	.section .note.GNU-stack, "", @progbits
