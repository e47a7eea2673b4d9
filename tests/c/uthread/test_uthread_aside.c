/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Waits in the kernel for a step of another thread of the same program.  Other threads run
 * meanwhile, at once, and even where no kernel thread can be made for them.
 */
#include "aside_support.h"
#include "patience.h"

static int rwlock_hold(void)
{
	return pthread_rwlock_wrlock(&shared->rwlock);
}

static int rwlock_release(void)
{
	return pthread_rwlock_unlock(&shared->rwlock);
}

static int rwlock_wait(void)
{
	return pthread_rwlock_rdlock(&shared->rwlock) || rwlock_release();
}

static int nothing(void)
{
	return 0;
}

static int sem_release(void)
{
	return sem_post(&shared->sem);
}

static int semaphore_wait(void)
{
	return sem_wait(&shared->sem) || sem_release();
}

static int flock_release(void)
{
	return flock(file, LOCK_UN);
}

static int record_lock(int of, int command, short type)
{
	struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_len = 1};
	return fcntl(of, command, &lock);
}

static int record_hold(void)
{
	return record_lock(file, F_OFD_SETLKW, F_WRLCK);
}

static int record_release(void)
{
	return record_lock(file, F_OFD_SETLKW, F_UNLCK);
}

static int record_wait(void)
{
	int own = open(path, O_RDWR);
	int result = own < 0 || record_lock(own, F_OFD_SETLKW, F_WRLCK);

	close(own);
	return result;
}

struct message {
	long type;
	char text[8];
};

static int message_release(void)
{
	const struct message message = {.type = 1};
	return msgsnd(queue, &message, sizeof(message.text), 0);
}

static int message_wait(void)
{
	struct message message;
	return msgrcv(queue, &message, sizeof(message.text), 0, 0) < 0 || message_release();
}

static int change(short by)
{
	struct sembuf operation = {.sem_op = by};
	return semop(set, &operation, 1);
}

static int set_release(void)
{
	return change(1);
}

static int set_wait(void)
{
	return change(-1) || change(1);
}

static pid_t child;
static int to_child;

/* A pipe ends it: after a change of its user the parent may not kill it. */
static int child_hold(void)
{
	int ends[2];

	if (pipe(ends))
		return -1;
	child = fork();
	if (child == 0) {
		close(ends[1]);
		_exit((int)read(ends[0], ends, 1));
	}
	close(ends[0]);
	to_child = ends[1];
	return child < 0;
}

static int child_release(void)
{
	return close(to_child);
}

static int child_wait(void)
{
	siginfo_t ended_child;
	return waitid(P_PID, (id_t)child, &ended_child, WEXITED | WNOWAIT) ||
	       ended_child.si_pid != child;
}

static const struct kind rwlocks = {rwlock_wait, rwlock_hold, rwlock_release};
static const struct kind semaphores = {semaphore_wait, nothing, sem_release};
static const struct kind flocks = {flock_wait, flock_hold, flock_release};
static const struct kind records = {record_wait, record_hold, record_release};
static const struct kind messages = {message_wait, nothing, message_release};
static const struct kind sets = {set_wait, nothing, set_release};
static const struct kind children = {child_wait, child_hold, child_release};

static void the_holder_runs_while_all_wait_for(const struct kind *kind)
{
	pthread_t threads[THREADS];

	have_threads(threads, kind);
	let_them_wait();
	let_them_end(threads, kind);
}

static void without_kernel_threads_the_holder_of_a_mutex_runs(void **state)
{
	(void)state;
	the_holder_runs_while_all_wait_for(&mutexes);
}

static void without_kernel_threads_the_holder_of_an_rwlock_runs(void **state)
{
	(void)state;
	the_holder_runs_while_all_wait_for(&rwlocks);
}

static void without_kernel_threads_the_poster_of_a_semaphore_runs(void **state)
{
	(void)state;
	the_holder_runs_while_all_wait_for(&semaphores);
}

static void without_kernel_threads_the_holder_of_a_file_lock_runs(void **state)
{
	(void)state;
	the_holder_runs_while_all_wait_for(&flocks);
}

static void without_kernel_threads_the_holder_of_a_record_lock_runs(void **state)
{
	(void)state;
	the_holder_runs_while_all_wait_for(&records);
}

static void without_kernel_threads_the_sender_of_a_message_runs(void **state)
{
	(void)state;
	the_holder_runs_while_all_wait_for(&messages);
}

static void without_kernel_threads_the_changer_of_a_semaphore_set_runs(void **state)
{
	(void)state;
	the_holder_runs_while_all_wait_for(&sets);
}

static void without_kernel_threads_the_killer_of_a_child_runs(void **state)
{
	(void)state;
	the_holder_runs_while_all_wait_for(&children);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

int main(void)
{
	limit_to(100);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(without_kernel_threads_the_holder_of_a_mutex_runs,
						make, unmake),
		cmocka_unit_test_setup_teardown(without_kernel_threads_the_holder_of_an_rwlock_runs,
						make, unmake),
		cmocka_unit_test_setup_teardown(
			without_kernel_threads_the_poster_of_a_semaphore_runs, make, unmake),
		cmocka_unit_test_setup_teardown(
			without_kernel_threads_the_holder_of_a_file_lock_runs, make, unmake),
		cmocka_unit_test_setup_teardown(
			without_kernel_threads_the_holder_of_a_record_lock_runs, make, unmake),
		cmocka_unit_test_setup_teardown(without_kernel_threads_the_sender_of_a_message_runs,
						make, unmake),
		cmocka_unit_test_setup_teardown(
			without_kernel_threads_the_changer_of_a_semaphore_set_runs, make, unmake),
		cmocka_unit_test_setup_teardown(without_kernel_threads_the_killer_of_a_child_runs,
						make, unmake),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
