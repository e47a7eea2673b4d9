/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The objects through which programs send and receive: answers.h records the receivers.
 *
 * Each object has a program for sends and one for receives. Where the kernel lacks either, a
 * receiver is known only if the send wakes it.
 */
#ifndef TEK_OBJECTS_H
#define TEK_OBJECTS_H

#include "answers.h"

/* A UNIX socket of any type has something to receive: what was sent, or a connection. Before Linux
 * 6.3, which has this tracepoint, the loader attaches this to sock_def_readable(). */
SEC("tp_btf/sk_data_ready")
int BPF_PROG(socket_sent, struct sock *socket)
{
	if (socket->__sk_common.skc_family != AF_UNIX)
		return 0;
	return note_send((__u64)socket);
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(socket_received, struct sock *socket)
{
	return note_receiver((__u64)socket);
}

/* Before Linux 6.3, which has that tracepoint. */
SEC("fentry/unix_stream_recvmsg")
int BPF_PROG(stream_received, struct socket *socket)
{
	if (!tallies.inboxes)
		return 0;
	return note_receiver((__u64)socket->sk);
}

SEC("fentry/__unix_dgram_recvmsg")
int BPF_PROG(datagram_received, struct sock *socket)
{
	return note_receiver((__u64)socket);
}

/* Pipes have functions of their own since Linux 6.16, and FIFOs call them. */
SEC("fentry/anon_pipe_write")
int BPF_PROG(pipe_sent, struct kiocb *request)
{
	return note_send((__u64)request->ki_filp->private_data);
}

SEC("fentry/anon_pipe_read")
int BPF_PROG(pipe_received, struct kiocb *request)
{
	if (!tallies.inboxes)
		return 0;
	return note_receiver((__u64)request->ki_filp->private_data);
}

SEC("fentry/eventfd_write")
int BPF_PROG(eventfd_sent, struct file *file)
{
	return note_send((__u64)file->private_data);
}

SEC("fentry/eventfd_read")
int BPF_PROG(eventfd_received, struct kiocb *request)
{
	if (!tallies.inboxes)
		return 0;
	return note_receiver((__u64)request->ki_filp->private_data);
}

/* A System V queue by its number and its namespace. Kernel addresses are greater. */
static __always_inline __u64 queue_of(int number)
{
	struct task_struct *task = (void *)bpf_get_current_task_btf();
	return (__u64)(BPF_CORE_READ(task, nsproxy, ipc_ns, ns.inum) & 0x7fffffff) << 32 | number;
}

SEC("fentry/do_msgsnd")
int BPF_PROG(message_sent, int queue)
{
	return note_send(queue_of(queue));
}

SEC("fentry/do_msgrcv")
int BPF_PROG(message_received, int queue)
{
	if (!tallies.inboxes)
		return 0;
	return note_receiver(queue_of(queue));
}

/* A POSIX queue by the inode of its descriptor. */
static __always_inline __u64 mq_of(int descriptor)
{
	struct task_struct *task = (void *)bpf_get_current_task_btf();
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file *file = NULL;
	if (descriptor < 0 || (__u32)descriptor >= BPF_CORE_READ(table, max_fds))
		return 0;
	bpf_probe_read_kernel(&file, sizeof(file),
			      (void *)BPF_CORE_READ(table, fd) + descriptor * sizeof(file));
	return file ? (__u64)BPF_CORE_READ(file, f_inode) : 0;
}

SEC("fentry/do_mq_timedsend")
int BPF_PROG(mq_sent, int queue)
{
	return note_send(mq_of(queue));
}

SEC("fentry/do_mq_timedreceive")
int BPF_PROG(mq_received, int queue)
{
	if (!tallies.inboxes)
		return 0;
	return note_receiver(mq_of(queue));
}

#endif
