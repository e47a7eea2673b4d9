/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Waits in the kernel for a step of another thread of the same program.  Other threads run
 * meanwhile, at once, and even where no kernel thread can be made for them.
 */
#include "patience.h"
#include "shared_objects.h"
#include "uthread_posix.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum {
	THREADS = 80, /* more than there are spare kernel threads, of those before */
	WAITS = 40,
	MOST_MS = 8, /* a thread that waits for a kernel thread in vain waits longer */
	NOBODY = 65534,
};

static struct shared *shared;
static int queue, set, file;
static char path[32];
static sem_t gate, other_gate;
static atomic_int begun, ended;

static int make(void **state)
{
	(void)state;
	atomic_store(&begun, 0);
	atomic_store(&ended, 0);
	sem_init(&gate, 0, 0);
	sem_init(&other_gate, 0, 0);
	shared = make_shared(WAITS + 1);
	queue = msgget(IPC_PRIVATE, 0666);
	set = semget(IPC_PRIVATE, 1, 0666);
	strcpy(path, "/tmp/tek-test-XXXXXX");
	file = mkstemp(path);
	return queue < 0 || set < 0 || file < 0 || fchmod(file, 0666);
}

static int unmake(void **state)
{
	(void)state;
	msgctl(queue, IPC_RMID, NULL);
	semctl(set, 0, IPC_RMID);
	close(file);
	unlink(path);
	return unmake_shared(shared);
}

static struct rlimit limit_before;
static bool was_root;

static void allow_kernel_threads(void)
{
	if (was_root)
		assert_int_equal(setresuid(0, 0, 0), 0);
	assert_int_equal(setrlimit(RLIMIT_NPROC, &limit_before), 0);
}

/*
 * From here on this process gets no more kernel threads.  Root has no limit, so it becomes another
 * user.
 */
static void forbid_kernel_threads(void)
{
	assert_int_equal(getrlimit(RLIMIT_NPROC, &limit_before), 0);
	const struct rlimit none = {.rlim_cur = 0, .rlim_max = limit_before.rlim_max};

	assert_int_equal(setrlimit(RLIMIT_NPROC, &none), 0);
	was_root = geteuid() == 0;
	if (was_root)
		assert_int_equal(setresuid(NOBODY, NOBODY, 0), 0);
	pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
	if (child == 0)
		_exit(0);
	if (child > 0) {
		waitpid(child, NULL, 0);
		allow_kernel_threads();
		print_message("# there is no limit of processes here\n");
		skip();
	}
}

/*
 * An object that threads wait for until the first thread, its holder, releases it for all of them.
 * 0: the thread has had it.
 */
struct kind {
	int (*wait)(void);
	int (*hold)(void);
	int (*release)(void);
};

static int mutex_hold(void)
{
	return pthread_mutex_lock(&shared->mutex);
}

static int mutex_release(void)
{
	return pthread_mutex_unlock(&shared->mutex);
}

static int mutex_wait(void)
{
	return mutex_hold() || mutex_release();
}

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

static int flock_hold(void)
{
	return flock(file, LOCK_EX);
}

static int flock_release(void)
{
	return flock(file, LOCK_UN);
}

static int flock_wait(void)
{
	int own = open(path, O_RDWR);
	int result = own < 0 || flock(own, LOCK_EX);
	int error = errno;

	close(own);
	errno = error;
	return result;
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

static const struct kind mutexes = {mutex_wait, mutex_hold, mutex_release};
static const struct kind rwlocks = {rwlock_wait, rwlock_hold, rwlock_release};
static const struct kind semaphores = {semaphore_wait, nothing, sem_release};
static const struct kind flocks = {flock_wait, flock_hold, flock_release};
static const struct kind records = {record_wait, record_hold, record_release};
static const struct kind messages = {message_wait, nothing, message_release};
static const struct kind sets = {set_wait, nothing, set_release};
static const struct kind children = {child_wait, child_hold, child_release};

static void *wait_for_one(void *argument)
{
	const struct kind *kind = argument;

	sem_wait(&gate);
	atomic_fetch_add(&begun, 1);
	return kind->wait() ? argument : NULL;
}

static void have_threads(pthread_t *threads, const struct kind *kind)
{
	assert_int_equal(kind->hold(), 0);
	for (int i = 0; i < THREADS; i++)
		threads[i] = start(wait_for_one, (void *)kind);
}

/* All of them, with no more kernel threads than exist: fewer, if threads are user-level ones. */
static void let_them_wait(void)
{
	forbid_kernel_threads();
	for (int i = 0; i < THREADS; i++)
		sem_post(&gate);
	assert_true(becomes(&begun, THREADS));
	nap(20);
}

static void let_them_end(pthread_t *threads, const struct kind *kind)
{
	assert_int_equal(kind->release(), 0);
	for (int i = 0; i < THREADS; i++)
		assert_null(result_of(threads[i]));
	allow_kernel_threads();
}

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

static void *wait_for_a_while(void *argument)
{
	const struct timespec moment = {.tv_nsec = 20000000};
	struct sembuf operation = {.sem_op = -1};
	struct timespec soon;

	sem_wait(&other_gate);
	soon = in_ms(CLOCK_REALTIME, 20);
	if (pthread_mutex_timedlock(&shared->mutex, &soon) != ETIMEDOUT)
		return argument;
	soon = in_ms(CLOCK_REALTIME, 20);
	if (sem_timedwait(&shared->sem, &soon) == 0 || errno != ETIMEDOUT)
		return argument;
	soon.tv_nsec = -1;
	if (pthread_mutex_timedlock(&shared->mutex, &soon) != EINVAL)
		return argument;
	return semtimedop(set, &operation, 1, &moment) < 0 && errno == EAGAIN ? NULL : argument;
}

static void handle(int number)
{
	(void)number;
}

static void *be_interrupted(void *argument)
{
	sem_wait(&other_gate);
	if (!flock_wait() || errno != EINTR)
		return argument;
	atomic_store(&ended, 1);
	return NULL;
}

static void *be_cancelled(void *argument)
{
	sem_wait(&other_gate);
	sem_wait(&shared->sem);
	return argument;
}

static void without_kernel_threads_waits_end_in_time_and_by_signals_and_cancellation(void **state)
{
	const struct sigaction action = {.sa_handler = handle};
	pthread_t threads[THREADS];

	sigaction(SIGUSR1, &action, NULL);
	have_threads(threads, &mutexes);
	pthread_t timed = start(wait_for_a_while, state);
	pthread_t interrupted = start(be_interrupted, state);
	pthread_t cancelled = start(be_cancelled, state);
	flock_hold();
	let_them_wait();
	for (int i = 0; i < 3; i++)
		sem_post(&other_gate);
	assert_null(result_of(timed));
	/* It may not have come to the wait yet. */
	while (!atomic_load(&ended)) {
		pthread_kill(interrupted, SIGUSR1);
		nap(1);
	}
	assert_null(result_of(interrupted));
	pthread_cancel(cancelled);
	assert_ptr_equal(result_of(cancelled), PTHREAD_CANCELED);
	let_them_end(threads, &mutexes);
}

static double began;

static double now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void *wait_at_the_barrier(void *argument)
{
	began = now_ms();
	atomic_fetch_add(&begun, 1);
	pthread_barrier_wait(&shared->barrier);
	return argument;
}

/* Until the first thread runs again. */
static double begin_a_wait(pthread_t *thread)
{
	const int before = atomic_load(&begun);

	*thread = start(wait_at_the_barrier, NULL);
	while (atomic_load(&begun) == before)
		sched_yield();
	return now_ms() - began;
}

static int compare(const void *left, const void *right)
{
	const double difference = *(const double *)left - *(const double *)right;
	return (difference > 0) - (difference < 0);
}

/* One after the other, so that the first one of two has what was kept ready. */
static void other_threads_run_soon_after_a_wait_has_begun(void **state)
{
	double slower[WAITS / 2];
	pthread_t threads[WAITS];

	(void)state;
	if (!on_user_level()) {
		print_message("# the kernel's scheduler is not judged\n");
		skip();
	}
	for (int i = 0; i < WAITS; i += 2) {
		const double first = begin_a_wait(&threads[i]);
		const double second = begin_a_wait(&threads[i + 1]);
		slower[i / 2] = first > second ? first : second;
	}
	pthread_barrier_wait(&shared->barrier);
	for (int i = 0; i < WAITS; i++)
		assert_null(result_of(threads[i]));
	qsort(slower, WAITS / 2, sizeof(slower[0]), compare);
	print_message("# %.3f ms, of most %.3f ms\n", slower[WAITS / 4], slower[WAITS / 2 - 1]);
	assert_true(slower[WAITS / 4] < MOST_MS * patient_seconds(1));
}

int main(void)
{
	limit_to(100);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(other_threads_run_soon_after_a_wait_has_begun, make,
						unmake),
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
		cmocka_unit_test_setup_teardown(
			without_kernel_threads_waits_end_in_time_and_by_signals_and_cancellation,
			make, unmake),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
