/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* pid_t vfork(void): see preload/self.c. */
	.globl	vfork
	.type	vfork, @function
	.text
vfork:
	.cfi_startproc
	subl	$12, %esp
	.cfi_adjust_cfa_offset 12
	call	tek__vfork_begin
	addl	$12, %esp
	.cfi_adjust_cfa_offset -12
	jmp	*%eax
	.cfi_endproc
	.size	vfork, .-vfork
	.section .note.GNU-stack, "", @progbits
