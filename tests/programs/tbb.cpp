// SPDX-License-Identifier: MIT OR Apache-2.0
/* oneTBB: a reduction and a task group.  Prints the results. */
#include <atomic>
#include <cstdio>
#include <tbb/blocked_range.h>
#include <tbb/global_control.h>
#include <tbb/parallel_reduce.h>
#include <tbb/task_group.h>

int main()
{
	constexpr long long numbers = 1000000;
	constexpr int tasks = 1000;
	tbb::global_control threads(tbb::global_control::max_allowed_parallelism, 4);
	long long sum = tbb::parallel_reduce(
		tbb::blocked_range<long long>(0, numbers), 0LL,
		[](const tbb::blocked_range<long long> &range, long long part) {
			for (long long n = range.begin(); n < range.end(); n++)
				part += n;
			return part;
		},
		[](long long a, long long b) { return a + b; });
	std::atomic<int> ran{0};
	tbb::task_group group;

	for (int n = 0; n < tasks; n++)
		group.run([&ran] { ran++; });
	group.wait();
	std::printf("sum %lld, ran %d\n", sum, ran.load());
	return 0;
}
