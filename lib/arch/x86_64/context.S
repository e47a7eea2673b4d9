/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * void tek__context_switch(struct tek_context *from, const struct tek_context *to)
 *
 * Saves what a function must preserve (System V ABI, 3.2.1), the control words of SSE and x87 among
 * it, on the stack of the one that leaves.  Loading a control word waits for all that was begun
 * before, so it is done only where they differ.
 *
 * Processors predict that a return goes back to the last call.  If the other one left at the same
 * place of the program as this one, as when threads yield to each other, that is where it goes on,
 * and the returns of its callers are predicted, too: three times as fast.  Else a return would be
 * predicted wrongly for certain, a jump is not.
 */
	.globl	tek__context_switch
	.hidden	tek__context_switch
	.type	tek__context_switch, @function
	.text
	.p2align 4
tek__context_switch:
	.cfi_startproc
	endbr64
	/* Below the stack pointer: signal handlers stay 128 bytes away from it. */
	movq	(%rsi), %rdx
	leaq	-56(%rsp), %rcx
	movq	%rcx, (%rdi)
	stmxcsr	-56(%rsp)
	fnstcw	-52(%rsp)
	movq	%r15, -48(%rsp)
	movq	%r14, -40(%rsp)
	movq	%r13, -32(%rsp)
	movq	%r12, -24(%rsp)
	movq	%rbx, -16(%rsp)
	movq	%rbp, -8(%rsp)
	movl	(%rcx), %eax
	movzwl	4(%rcx), %ecx
	xorl	(%rdx), %eax
	testl	$0xffc0, %eax /* not the status flags, which any operation may set */
	jnz	1f
	cmpw	4(%rdx), %cx
	jne	1f
2:	movq	56(%rdx), %rcx
	movq	(%rsp), %rax
	leaq	56(%rdx), %rsp
	movq	8(%rdx), %r15
	movq	16(%rdx), %r14
	movq	24(%rdx), %r13
	movq	32(%rdx), %r12
	movq	40(%rdx), %rbx
	movq	48(%rdx), %rbp
	cmpq	%rax, %rcx
	jne	3f
	ret
3:	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	.cfi_register %rip, %rcx
	jmp	*%rcx
	.cfi_adjust_cfa_offset 8
	.cfi_restore %rip
1:	ldmxcsr	(%rdx)
	fldcw	4(%rdx)
	jmp	2b
	.cfi_endproc
	.size	tek__context_switch, .-tek__context_switch

/*
 * Where a new context begins: r12 is a function, r13 its argument. It returns the context to go on
 * with, so the processor sees as many returns as calls, and predicts those of the last caller of
 * tek__context_switch().
 */
	.globl	tek__context_enter
	.hidden	tek__context_enter
	.type	tek__context_enter, @function
	.p2align 4
tek__context_enter:
	.cfi_startproc
	.cfi_undefined %rip /* the outermost frame: unwinders stop here */
	endbr64
	movq	%r13, %rdi
	xorl	%ebp, %ebp
	call	*%r12
	movq	%rax, %rdi
	/* and on into the next function */
	.cfi_endproc
	.size	tek__context_enter, .-tek__context_enter

/* void tek__context_go(const struct tek_context *to) */
	.globl	tek__context_go
	.hidden	tek__context_go
	.type	tek__context_go, @function
tek__context_go:
	.cfi_startproc
	.cfi_undefined %rip
	endbr64
	movq	(%rdi), %rdx
	stmxcsr	-8(%rsp)
	fnstcw	-4(%rsp)
	movl	-8(%rsp), %eax
	movzwl	-4(%rsp), %ecx
	xorl	(%rdx), %eax
	testl	$0xffc0, %eax
	jnz	1f
	cmpw	4(%rdx), %cx
	jne	1f
2:	movq	8(%rdx), %r15
	movq	16(%rdx), %r14
	movq	24(%rdx), %r13
	movq	32(%rdx), %r12
	movq	40(%rdx), %rbx
	movq	48(%rdx), %rbp
	leaq	tek__context_enter(%rip), %rax
	leaq	56(%rdx), %rsp
	.cfi_remember_state
	.cfi_restore %rip
	cmpq	%rax, (%rsp)
	je	3f
	ret
	.cfi_restore_state
	/* A new one, too: no function returns. */
3:	addq	$8, %rsp
	jmp	tek__context_enter
1:	ldmxcsr	(%rdx)
	fldcw	4(%rdx)
	jmp	2b
	.cfi_endproc
	.size	tek__context_go, .-tek__context_go

/*
 * int tek__context_call(int (*function)(void))
 *
 * If the function switches, the last call that the processor has seen was another context's, from
 * another place of the program, and a return would be predicted to go there.  A jump is predicted
 * by where it went before.
 */
	.globl	tek__context_call
	.hidden	tek__context_call
	.type	tek__context_call, @function
	.p2align 4
tek__context_call:
	.cfi_startproc
	endbr64
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	call	*%rdi
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	popq	%rcx
	.cfi_adjust_cfa_offset -8
	.cfi_register %rip, %rcx
	jmp	*%rcx
	.cfi_endproc
	.size	tek__context_call, .-tek__context_call
	.section .note.GNU-stack, "", %progbits
