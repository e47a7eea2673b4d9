/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Calls that wait in the kernel for events that no file reports: System V messages and semaphores,
 * locks of files, the other end of a FIFO, children.  Other threads go on meanwhile, and the waiter
 * can be cancelled and interrupted.
 */
#include "kernel_support.h"
#include "patience.h"

#include <sys/stat.h>
#include <sys/wait.h>

struct message {
	long type;
	char text[64];
};

static void *receive(void *unused)
{
	struct message message;
	pthread_cleanup_push(clean, NULL);
	atomic_store(&reached, 1);
	keep((int)msgrcv(queue, &message, sizeof(message.text), 7, 0));
	pthread_cleanup_pop(0);
	return unused;
}

static void a_thread_that_waits_for_a_message_gets_it_from_another_thread(void **state)
{
	struct message message = {.type = 6, .text = "no"};
	(void)state;
	pthread_t thread = waiting(receive);
	assert_int_equal(msgsnd(queue, &message, 2, 0), 0);
	message.type = 7;
	assert_int_equal(msgsnd(queue, &message, 3, 0), 0);
	result_of(thread);
	assert_int_equal(result, 3);
}

static void fill(void)
{
	struct message message = {.type = 1};
	while (msgsnd(queue, &message, sizeof(message.text), IPC_NOWAIT) == 0)
		;
	assert_int_equal(errno, EAGAIN);
}

static void *send(void *unused)
{
	struct message message = {.type = 2};
	pthread_cleanup_push(clean, NULL);
	atomic_store(&reached, 1);
	keep(msgsnd(queue, &message, sizeof(message.text), 0));
	pthread_cleanup_pop(0);
	return unused;
}

static void a_thread_that_sends_into_a_full_queue_waits_until_another_thread_receives(void **state)
{
	struct message message;
	(void)state;
	fill();
	pthread_t thread = waiting(send);
	assert_true(msgrcv(queue, &message, sizeof(message.text), 1, IPC_NOWAIT) >= 0);
	result_of(thread);
	assert_int_equal(result, 0);
}

static void what_cannot_be_done_at_once_fails_if_that_is_asked_for(void **state)
{
	struct message message;
	struct sembuf down = {.sem_op = -1, .sem_flg = IPC_NOWAIT};
	(void)state;
	assert_int_equal(msgrcv(queue, &message, sizeof(message.text), 0, IPC_NOWAIT), -1);
	assert_int_equal(errno, ENOMSG);
	fill();
	assert_int_equal(msgsnd(queue, &(struct message){.type = 1}, 64, IPC_NOWAIT), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(semop(set, &down, 1), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(semop(set, &down, 0), -1);
	assert_int_equal(errno, EINVAL);
}

static void *pass(void *unused)
{
	struct sembuf down = {.sem_op = -2};
	atomic_store(&reached, 1);
	keep(semop(set, &down, 1));
	return unused;
}

static void a_thread_that_waits_for_a_semaphore_goes_on_when_another_thread_raises_it(void **state)
{
	struct sembuf up = {.sem_op = 1};
	(void)state;
	pthread_t thread = waiting(pass);
	for (int i = 0; i < 10000 && semctl(set, 0, GETNCNT) != 1; i++)
		nap(1);
	assert_int_equal(semctl(set, 0, GETNCNT), 1);
	assert_int_equal(semop(set, &up, 1), 0);
	assert_int_equal(semop(set, &up, 1), 0);
	result_of(thread);
	assert_int_equal(result, 0);
	assert_int_equal(semctl(set, 0, GETVAL), 0);
}

static void *wait_for_zero(void *unused)
{
	struct sembuf zero = {.sem_op = 0};
	atomic_store(&reached, 1);
	keep(semop(set, &zero, 1));
	return unused;
}

static void a_semaphore_that_is_zero_for_a_moment_is_noticed(void **state)
{
	struct sembuf up = {.sem_op = 1}, down = {.sem_op = -1};
	(void)state;
	semop(set, &up, 1);
	pthread_t thread = waiting(wait_for_zero);
	semop(set, &down, 1);
	semop(set, &up, 1);
	result_of(thread);
	assert_int_equal(result, 0);
}

static void a_wait_for_a_semaphore_ends_with_its_time(void **state)
{
	const struct timespec time = {.tv_nsec = 30000000};
	struct sembuf down = {.sem_op = -1};
	struct timespec from, to;
	(void)state;
	clock_gettime(CLOCK_MONOTONIC, &from);
	assert_int_equal(semtimedop(set, &down, 1, &time), -1);
	assert_int_equal(errno, EAGAIN);
	clock_gettime(CLOCK_MONOTONIC, &to);
	assert_true((to.tv_sec - from.tv_sec) * 1000000000L + to.tv_nsec - from.tv_nsec >=
		    30000000);
	assert_int_equal(semtimedop(set, &down, 1, &(struct timespec){.tv_nsec = -1}), -1);
	assert_int_equal(errno, EINVAL);
}

static void *open_to_read(void *unused)
{
	pthread_cleanup_push(clean, NULL);
	atomic_store(&reached, 1);
	keep(open(path, O_RDONLY));
	pthread_cleanup_pop(0);
	return unused;
}

static void
a_thread_that_opens_a_fifo_waits_for_another_thread_that_opens_its_other_end(void **state)
{
	(void)state;
	assert_int_equal(mkfifo(path, 0600), 0);
	pthread_t thread = waiting(open_to_read);
	int file = open(path, O_WRONLY);
	assert_true(file >= 0);
	result_of(thread);
	assert_true(result >= 0);
	close(result);
	close(file);
}

static void *reach(void *unused)
{
	atomic_store(&reached, 1);
	return unused;
}

static uint64_t blocked_by_the_kernel(void)
{
	char line[128];
	unsigned long long mask = 0;
	FILE *file = fopen("/proc/thread-self/status", "re");

	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "SigBlk: %llx", &mask);
	if (file)
		fclose(file);
	return mask;
}

static int *only_thread_file;

/* 0 if all is blocked after a wait that was asked for, and a second thread can run then. */
static int block_and_wait(void)
{
	const uint64_t can_be = ~(UINT64_C(1) << (SIGKILL - 1) | UINT64_C(1) << (SIGSTOP - 1) |
				  UINT64_C(1) << (SIGUSR1 - 1));
	char byte;

	block_all_but(SIGUSR1);
	if (blocked_by_the_kernel() != can_be)
		return 1;
	if (read(only_thread_file[0], &byte, 1) != 1 || blocked_by_the_kernel() != can_be)
		return 2;
	atomic_store(&reached, 0);
	pthread_t thread = start(reach, NULL);
	result_of(thread);
	return atomic_load(&reached) == 1 ? 0 : 3;
}

static void what_the_only_thread_blocks_stays_blocked_when_it_has_waited(void **state)
{
	(void)state;
	int file[2];
	int status;
	char byte = 0;

	assert_int_equal(pipe(file), 0);
	only_thread_file = file;
	pid_t child = fork();
	if (child == 0)
		_exit(block_and_wait());
	nap(30);
	assert_int_equal(write(file[1], &byte, 1), 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	close(file[0]);
	close(file[1]);
}

static void cancel(void *(*call)(void *))
{
	atomic_store(&reached, 0);
	atomic_store(&cleaned, 0);
	pthread_t thread = waiting(call);
	assert_int_equal(pthread_cancel(thread), 0);
	assert_ptr_equal(result_of(thread), PTHREAD_CANCELED);
	assert_int_equal(atomic_load(&cleaned), 1);
}

static void a_waiter_is_cancelled(void **state)
{
	(void)state;
	cancel(receive);
	fill();
	cancel(send);
	int file = open_it();
	assert_int_equal(flock(file, LOCK_EX), 0);
	struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	assert_int_equal(fcntl(file, F_OFD_SETLK, &whole), 0);
	cancel(lock_by_fcntl);
	close(file);
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	cancel(open_to_read);
}

static void handlers_interrupt_messages_and_semaphores(void **state)
{
	struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
	void *(*const calls[])(void *) = {receive, pass};
	(void)state;
	sigaction(SIGUSR1, &action, NULL);
	for (int i = 0; i < 2; i++) {
		atomic_store(&reached, 0);
		atomic_store(&handled, 0);
		atomic_store(&returned, 0);
		interrupt_call_of(waiting(calls[i]));
	}
}

int main(void)
{
	limit_to(100);
	const struct CMUnitTest tests[] = {
		TEST(a_thread_that_waits_for_a_message_gets_it_from_another_thread),
		TEST(a_thread_that_sends_into_a_full_queue_waits_until_another_thread_receives),
		TEST(what_cannot_be_done_at_once_fails_if_that_is_asked_for),
		TEST(a_thread_that_waits_for_a_semaphore_goes_on_when_another_thread_raises_it),
		TEST(a_semaphore_that_is_zero_for_a_moment_is_noticed),
		TEST(a_wait_for_a_semaphore_ends_with_its_time),
		TEST(a_thread_that_opens_a_fifo_waits_for_another_thread_that_opens_its_other_end),
		TEST(what_the_only_thread_blocks_stays_blocked_when_it_has_waited),
		TEST(a_waiter_is_cancelled),
		TEST(handlers_interrupt_messages_and_semaphores),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
