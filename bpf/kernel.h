/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The fields of the kernel's structs that the programs use.
 *
 * The loader replaces the offsets with those of the running kernel (CO-RE). A struct that differs
 * between kernels has flavours here: CO-RE ignores the part of a name from ___ on.
 */
#ifndef TEK_KERNEL_H
#define TEK_KERNEL_H

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *)0)

/* <linux/bpf.h> */
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27
};
enum { BPF_ANY = 0, BPF_NOEXIST = 1 };
enum { BPF_RB_NO_WAKEUP = 1, BPF_RB_FORCE_WAKEUP = 2 };
enum { BPF_RB_AVAIL_DATA = 0 };

/* <linux/sched.h> */
#define PF_EXITING 0x4
#define PF_IO_WORKER 0x10
#define PF_WQ_WORKER 0x20
#define PF_MEMALLOC_NOFS 0x40000
#define PF_KTHREAD 0x200000
#define MAX_RT_PRIO 100
#define TASK_RUNNING 0 /* or waiting for a CPU */
#define TASK_INTERRUPTIBLE 1
#define TASK_UNINTERRUPTIBLE 2
#define TASK_NOLOAD 0x400 /* with TASK_UNINTERRUPTIBLE: the task is idle */

/* kernel/workqueue.c: a bit of worker.flags */
#define WORKER_IDLE 4

/* <linux/interrupt.h> */
#define BLOCK_SOFTIRQ 4

/* <linux/workqueue.h>: a bit of workqueue_struct.flags */
#define WQ_MEM_RECLAIM 8

/* <linux/preempt.h> */
#define SERVING_SOFTIRQ 0x100
#define IN_INTERRUPT 0xff0000 /* hardware interrupts and NMI */

/* <linux/fs.h>: bits of inode.i_state */
#define I_DIRTY_PAGES_OF_LONG 0x04 /* before Linux 6.12, where i_state is a long */
#define I_FREEING_OF_LONG 0x20
#define I_DIRTY_PAGES_OF_INT 0x20 /* before Linux 6.18, where i_state is an int; later from BTF */
#define I_FREEING_OF_INT 0x80

/* <linux/socket.h> */
#define AF_UNIX 1

/* <linux/backing-dev.h> */
#define BDI_CAP_WRITEBACK 1

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct list_head {
	struct list_head *next;
};

struct thread_info___counted {
	int preempt_count; /* absent on x86, which has a per-CPU variable */
};

struct rq;

struct cfs_rq {
	struct rq *rq;
};

struct sched_entity {
	struct cfs_rq *cfs_rq;
};

struct mm_struct;

struct upid {
	int nr;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

struct signal_struct {
	struct list_head thread_head;
};

struct ns_common {
	unsigned int inum;
};

struct ipc_namespace {
	struct ns_common ns;
};

struct nsproxy {
	struct ipc_namespace *ipc_ns;
};

struct task_io_accounting {
	__u64 syscw; /* calls of write(2) */
};

struct file;

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct task_struct {
	unsigned int __state;
	int prio;
	unsigned int flags;
	int pid;
	int tgid;
	struct sched_entity se;
	void *journal_info;
	char comm[16];
	struct mm_struct *mm;
	struct pid *thread_pid;
	struct list_head thread_node;
	int *clear_child_tid;
	struct signal_struct *signal;
	struct nsproxy *nsproxy;
	struct files_struct *files;
	struct task_io_accounting ioac; /* absent without accounting */
};

/* The registers of a system call, on each processor. */
struct thread_info___x86 {
	unsigned int status;
};

struct task_struct___x86 {
	struct thread_info___x86 thread_info;
};

struct pt_regs___tek_x86 {
	unsigned long dx;
	unsigned long si;
	unsigned long di;
	unsigned long orig_ax;
};

struct thread_info___arm64 {
	unsigned long flags;
};

struct task_struct___arm64 {
	struct thread_info___arm64 thread_info;
};

struct pt_regs___tek_arm64 {
	__u64 regs[31];
	__u64 orig_x0;
	__s32 syscallno;
};

struct pt_regs___tek_riscv {
	unsigned long a1;
	unsigned long a2;
	unsigned long a7;
	unsigned long orig_a0;
};

struct task_struct___counted {
	struct thread_info___counted thread_info;
};

struct task_struct___rt {
	int softirq_disable_cnt;
};

struct work_struct {
	void (*func)(struct work_struct *);
};

struct delayed_work {
	struct work_struct work;
};

struct worker {
	struct list_head entry;
	struct work_struct *current_work;
	struct task_struct *task;
	struct list_head node;
	int sleeping;
	unsigned int flags;
};

struct worker_pool {
	struct list_head idle_list;
	struct list_head workers;
	int nr_running;
};

struct workqueue_struct {
	unsigned int flags;
	char name[24]; /* longer since Linux 6.9 */
};

struct pool_workqueue {
	struct worker_pool *pool;
	struct workqueue_struct *wq;
};

struct backing_dev_info;

struct bdi_writeback {
	struct backing_dev_info *bdi;
	struct delayed_work dwork;
};

struct backing_dev_info {
	unsigned int capabilities;
	struct bdi_writeback wb;
};

struct super_block {
	unsigned int s_dev;
	struct backing_dev_info *s_bdi;
};

struct inode {
	struct super_block *i_sb;
	unsigned int i_rdev;
	struct bdi_writeback *i_wb; /* absent without control groups for writeback */
};

/* Before Linux 6.18: i_state is a number. */
struct inode___number {
	unsigned long i_state;
};

/* After that i_state is an enum, */
enum inode_state_flags_t___tek { I_DIRTY_PAGES___named = 0x40, I_FREEING___named = 0x100 };

struct inode___named {
	enum inode_state_flags_t___tek i_state;
};

/* and later a struct with an enum. */
enum inode_state_flags_enum___tek { I_DIRTY_PAGES___wrapped = 0x40, I_FREEING___wrapped = 0x100 };

struct inode_state_flags___wrapped {
	enum inode_state_flags_enum___tek __state;
};

struct inode___wrapped {
	struct inode_state_flags___wrapped i_state;
};

struct address_space {
	struct inode *host;
};

/* PG_head: a folio of several pages has this flag. */
enum pageflags___tek { PG_head___tek = 6 };

struct folio {
	unsigned long flags; /* from Linux 6.18 on a struct with the same bits: folio___wrapped */
	struct address_space *mapping;
};

struct memdesc_flags_t___wrapped {
	unsigned long f;
};

struct folio___wrapped {
	struct memdesc_flags_t___wrapped flags;
};

struct folio___counted {
	unsigned int _nr_pages; /* since Linux 6.15 */
};

struct folio___before {
	unsigned int _folio_nr_pages;
};

struct gendisk {
	int major;
	int first_minor;
};

struct request_queue {
	struct gendisk *disk;
};

struct blk_mq_hw_ctx {
	unsigned int queue_num;
};

struct request {
	struct request_queue *q;
	struct blk_mq_hw_ctx *mq_hctx;
	unsigned int __data_len;
};

struct io_kiocb;

struct file {
	struct inode *f_inode;
	void *private_data;
};

struct kiocb {
	struct file *ki_filp;
};

struct sock_common {
	unsigned short skc_family;
};

struct sock {
	struct sock_common __sk_common;
};

struct socket {
	struct sock *sk;
};

struct sk_buff;
struct Qdisc;
struct netdev_queue;

#pragma clang attribute pop

#endif
