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
	testl	%eax, %eax
	jz	1f
	jmp	*%eax
1:	/* The return address in a register: on the stack the child would overwrite it. */
	popl	%ecx
	.cfi_adjust_cfa_offset -4
	.cfi_register %eip, %ecx
	movl	$190, %eax /* SYS_vfork */
	int	$0x80
	pushl	%ecx
	.cfi_adjust_cfa_offset 4
	.cfi_rel_offset %eip, 0
	testl	%eax, %eax
	jz	2f
	cmpl	$-4095, %eax
	jae	3f
	ret
2:	/* in the child */
	subl	$12, %esp
	.cfi_adjust_cfa_offset 12
	call	tek__vfork_in_child
	addl	$12, %esp
	.cfi_adjust_cfa_offset -12
	xorl	%eax, %eax
	ret
3:	subl	$8, %esp
	.cfi_adjust_cfa_offset 8
	pushl	%eax
	.cfi_adjust_cfa_offset 4
	call	tek__vfork_failed
	addl	$12, %esp
	.cfi_adjust_cfa_offset -12
	ret
	.cfi_endproc
	.size	vfork, .-vfork
	.section .note.GNU-stack, "", @progbits
