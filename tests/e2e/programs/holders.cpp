// SPDX-License-Identifier: MIT OR Apache-2.0
// A thread named holder holds what a thread named touch waits for. The first argument names its
// kind, the second one says how many seconds it holds it at most. It prints whether it became
// real-time meanwhile, and whether it is so afterwards. With a third argument it holds on until
// standard input ends.
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <pthread.h>
#include <sched.h>
#include <shared_mutex>
#include <string>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

static std::mutex mutex;
static std::timed_mutex timed;
static std::recursive_mutex recursive;
static std::shared_mutex shared;
static std::condition_variable changed;
static std::atomic<bool> holds, waits;
static bool is_set;
static double seconds;
static bool stays;

static bool is_real_time()
{
	return (syscall(SYS_sched_getscheduler, 0) & 0xff) == SCHED_RR;
}

static bool becomes_real_time()
{
	for (double left = seconds; left > 0; left -= 0.001) {
		if (is_real_time())
			return true;
		usleep(1000);
	}
	return false;
}

template <class Lock>
static bool hold(Lock &&lock)
{
	holds = true;
	const bool seen = becomes_real_time();
	while (stays && getchar() != EOF)
		;
	lock.unlock();
	return seen;
}

static bool signal_and_hold()
{
	holds = true;
	while (!waits)
		usleep(1000);
	std::unique_lock<std::mutex> lock(mutex);
	is_set = true;
	changed.notify_one();
	const bool seen = becomes_real_time();
	lock.unlock();
	return seen;
}

static bool hold(const std::string &kind)
{
	if (kind == "mutex")
		return hold(std::unique_lock<std::mutex>(mutex));
	if (kind == "timed_mutex")
		return hold(std::unique_lock<std::timed_mutex>(timed));
	if (kind == "recursive_mutex")
		return hold(std::unique_lock<std::recursive_mutex>(recursive));
	if (kind == "writer")
		return hold(std::unique_lock<std::shared_mutex>(shared));
	if (kind == "reader")
		return hold(std::shared_lock<std::shared_mutex>(shared));
	if (kind == "condition")
		return signal_and_hold();
	holds = true; // join
	return becomes_real_time();
}

static void wait(const std::string &kind, std::thread &holder)
{
	if (kind == "mutex")
		std::lock_guard<std::mutex> lock(mutex);
	else if (kind == "timed_mutex")
		std::unique_lock<std::timed_mutex> lock(timed, std::chrono::seconds(60));
	else if (kind == "recursive_mutex")
		std::lock_guard<std::recursive_mutex> lock(recursive);
	else if (kind == "writer")
		std::shared_lock<std::shared_mutex> lock(shared);
	else if (kind == "reader")
		std::lock_guard<std::shared_mutex> lock(shared);
	else if (kind == "condition") {
		std::unique_lock<std::mutex> lock(mutex);
		waits = true;
		changed.wait(lock, [] { return is_set; });
	} else
		holder.join();
}

int main(int count, char **arguments)
{
	const std::string kind = arguments[1];
	seconds = atof(arguments[2]);
	stays = count > 3;
	std::thread holder([&] {
		pthread_setname_np(pthread_self(), "holder");
		const bool seen = hold(kind);
		if (kind != "join")
			usleep(10000);
		printf("%s then %s\n", seen ? "lifted" : "ordinary",
		       is_real_time() ? "lifted" : "ordinary");
	});
	while (!holds)
		usleep(1000);
	std::thread touch([&] {
		pthread_setname_np(pthread_self(), "touch");
		wait(kind, holder);
	});
	touch.join();
	if (holder.joinable())
		holder.join();
	return 0;
}
