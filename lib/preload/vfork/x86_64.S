/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* pid_t vfork(void): see preload/self.c. */
#undef syscall /* an instruction here, and not our name of the function: lib/base/meson.build */
	.globl	vfork
	.type	vfork, @function
	.text
vfork:
	.cfi_startproc
	endbr64
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	call	tek__vfork_begin
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	testq	%rax, %rax
	jz	1f
	jmp	*%rax
1:	/* The return address in a register: on the stack the child would overwrite it. */
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	.cfi_register %rip, %rdi
	movl	$58, %eax /* SYS_vfork */
	syscall
	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rip, 0
	testq	%rax, %rax
	jz	2f
	cmpq	$-4095, %rax
	jae	3f
	ret
2:	/* in the child */
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	call	tek__vfork_in_child
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	xorl	%eax, %eax
	ret
3:	movq	%rax, %rdi
	jmp	tek__vfork_failed
	.cfi_endproc
	.size	vfork, .-vfork
	.section .note.GNU-stack, "", @progbits
