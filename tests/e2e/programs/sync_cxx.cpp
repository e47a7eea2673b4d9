// SPDX-License-Identifier: MIT OR Apache-2.0
// Threads that wait for each other by condition_variable::wait_for, shared_mutex, recursive_mutex.
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

namespace {

class queue {
public:
	void put(int value)
	{
		std::unique_lock lock(mutex_);
		changed_.wait(lock, [this] { return values_.size() < 4; });
		values_.push_back(value);
		changed_.notify_all();
	}

	int take()
	{
		std::unique_lock lock(mutex_);
		while (!changed_.wait_for(lock, 1ms, [this] { return !values_.empty(); }))
			timeouts_++;
		int value = values_.front();
		values_.pop_front();
		changed_.notify_all();
		return value;
	}

private:
	std::mutex mutex_;
	std::condition_variable changed_;
	std::deque<int> values_;
	long timeouts_ = 0;
};

int each;
queue numbers;
std::shared_mutex of_table;
std::map<int, int> table;
std::recursive_mutex twice;
std::timed_mutex timed;
long sum, tries;

void make()
{
	for (int i = 1; i <= each; i++)
		numbers.put(i);
}

void use()
{
	for (int i = 0; i < each; i++) {
		int value = numbers.take();
		{
			std::unique_lock lock(of_table);
			table[value]++;
		}
		{
			std::shared_lock lock(of_table);
			if (table.at(value) < 1)
				std::puts("lost");
		}
		std::lock_guard outer(twice), inner(twice);
		sum += value;
		std::unique_lock lock(timed, 10s);
		tries += lock.owns_lock();
	}
}

} // namespace

int main(int, char **arguments)
{
	each = std::atoi(arguments[1]);
	int pairs = std::atoi(arguments[2]);
	std::condition_variable never;
	std::mutex mutex;
	std::unique_lock lock(mutex);
	bool late = never.wait_for(lock, 10ms) == std::cv_status::timeout;
	std::vector<std::thread> all;
	for (int i = 0; i < pairs; i++) {
		all.emplace_back(make);
		all.emplace_back(use);
	}
	for (auto &thread : all)
		thread.join();
	std::printf("%ld %ld %zu %s\n", sum, tries, table.size(), late ? "timeout" : "early");
}
