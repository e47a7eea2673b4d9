// SPDX-License-Identifier: MIT OR Apache-2.0
// Three kinds of std::thread, all behind one start routine of the C++ library, that use their
// stacks differently: next to nothing, some 100 KB, some 300 KB.
#include <cstdio>
#include <thread>
#include <vector>

template <int bytes>
static int touch()
{
	volatile char on_stack[bytes];
	for (int i = 0; i < bytes; i += 512)
		on_stack[i] = 1;
	return on_stack[0];
}

static void little(int *sum)
{
	*sum = touch<1000>();
}

static void more(int *sum)
{
	*sum = touch<100000>();
}

struct Most {
	int *sum;
	void operator()() const { *sum = touch<300000>(); }
};

int main()
{
	int sums[9];
	for (int round = 0; round < 3; round++) {
		std::vector<std::thread> threads;
		threads.emplace_back(little, &sums[3 * round]);
		threads.emplace_back(more, &sums[3 * round + 1]);
		threads.emplace_back(Most{&sums[3 * round + 2]});
		for (auto &thread : threads)
			thread.join();
	}
	for (int sum : sums)
		std::printf("%d\n", sum);
}
