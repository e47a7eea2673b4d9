/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * void tek__context_switch(struct tek_context *from, const struct tek_context *to)
 *
 * Saves what a function must preserve (AAPCS64, 6.1), the low halves of v8 to v15 and FPCR among
 * it, on the stack of the one that leaves.  Writing FPCR waits for all that was begun before, so it
 * is done only where they differ.  It ends with `ret`, for which the address needs no landing pad.
 */
	.globl	tek__context_switch
	.hidden	tek__context_switch
	.type	tek__context_switch, %function
	.text
	.p2align 4
tek__context_switch:
	.cfi_startproc
	hint	#34 /* bti c */
	sub	sp, sp, #176
	.cfi_adjust_cfa_offset 176
	stp	x19, x20, [sp]
	.cfi_rel_offset x19, 0
	.cfi_rel_offset x20, 8
	stp	x21, x22, [sp, #16]
	.cfi_rel_offset x21, 16
	.cfi_rel_offset x22, 24
	stp	x23, x24, [sp, #32]
	.cfi_rel_offset x23, 32
	.cfi_rel_offset x24, 40
	stp	x25, x26, [sp, #48]
	.cfi_rel_offset x25, 48
	.cfi_rel_offset x26, 56
	stp	x27, x28, [sp, #64]
	.cfi_rel_offset x27, 64
	.cfi_rel_offset x28, 72
	stp	x29, x30, [sp, #80]
	.cfi_rel_offset x29, 80
	.cfi_rel_offset x30, 88
	stp	d8, d9, [sp, #96]
	stp	d10, d11, [sp, #112]
	stp	d12, d13, [sp, #128]
	stp	d14, d15, [sp, #144]
	mrs	x9, fpcr
	str	x9, [sp, #160]
	mov	x10, sp
	str	x10, [x0]
	ldr	x10, [x1]
	mov	sp, x10
	ldr	x11, [sp, #160]
	cmp	x9, x11
	b.ne	1f
2:	ldp	x19, x20, [sp]
	ldp	x21, x22, [sp, #16]
	ldp	x23, x24, [sp, #32]
	ldp	x25, x26, [sp, #48]
	ldp	x27, x28, [sp, #64]
	ldp	x29, x30, [sp, #80]
	ldp	d8, d9, [sp, #96]
	ldp	d10, d11, [sp, #112]
	ldp	d12, d13, [sp, #128]
	ldp	d14, d15, [sp, #144]
	.cfi_remember_state
	.cfi_restore x19
	.cfi_restore x20
	.cfi_restore x21
	.cfi_restore x22
	.cfi_restore x23
	.cfi_restore x24
	.cfi_restore x25
	.cfi_restore x26
	.cfi_restore x27
	.cfi_restore x28
	.cfi_restore x29
	.cfi_restore x30
	add	sp, sp, #176
	.cfi_adjust_cfa_offset -176
	ret
	.cfi_restore_state
1:	msr	fpcr, x11
	b	2b
	.cfi_endproc
	.size	tek__context_switch, .-tek__context_switch

/*
 * Where a new context begins: x19 is a function, x20 its argument.  It returns the context to go on
 * with.
 */
	.globl	tek__context_enter
	.hidden	tek__context_enter
	.type	tek__context_enter, %function
	.p2align 4
tek__context_enter:
	.cfi_startproc
	.cfi_undefined x30 /* the outermost frame: unwinders stop here */
	hint	#36 /* bti j */
	mov	x0, x20
	mov	x29, xzr
	blr	x19
	/* and on into the next function */
	.cfi_endproc
	.size	tek__context_enter, .-tek__context_enter

/* void tek__context_go(const struct tek_context *to) */
	.globl	tek__context_go
	.hidden	tek__context_go
	.type	tek__context_go, %function
tek__context_go:
	.cfi_startproc
	.cfi_undefined x30
	hint	#34 /* bti c */
	ldr	x10, [x0]
	mov	sp, x10
	mrs	x9, fpcr
	ldr	x11, [sp, #160]
	cmp	x9, x11
	b.ne	1f
2:	ldp	x19, x20, [sp]
	ldp	x21, x22, [sp, #16]
	ldp	x23, x24, [sp, #32]
	ldp	x25, x26, [sp, #48]
	ldp	x27, x28, [sp, #64]
	ldp	x29, x30, [sp, #80]
	ldp	d8, d9, [sp, #96]
	ldp	d10, d11, [sp, #112]
	ldp	d12, d13, [sp, #128]
	ldp	d14, d15, [sp, #144]
	.cfi_remember_state
	.cfi_restore x30
	add	sp, sp, #176
	ret
	.cfi_restore_state
1:	msr	fpcr, x11
	b	2b
	.cfi_endproc
	.size	tek__context_go, .-tek__context_go

/*
 * All have their landing pads: the linker may say so of the whole (NT_GNU_PROPERTY_TYPE_0, AND,
 * BTI).
 */
	.section .note.gnu.property, "a"
	.p2align 3
	.word	4
	.word	16
	.word	5
	.asciz	"GNU"
	.word	0xc0000000
	.word	4
	.word	1
	.word	0
	.section .note.GNU-stack, "", %progbits
