// SPDX-License-Identifier: MIT OR Apache-2.0

import java.util.ArrayList;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** Runs tasks that sleep, in platform threads or in virtual ones, and prints the sum of their results. */
public class Pool {
	static final int TASKS = 200;

	/** By reflection, because releases before 21 lack the method. */
	static ExecutorService virtual() throws Exception {
		return (ExecutorService) Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null);
	}

	public static void main(String[] arguments) throws Exception {
		boolean wanted = arguments[0].equals("virtual");
		ExecutorService threads = wanted ? virtual() : Executors.newFixedThreadPool(8);
		ArrayList<Future<Integer>> results = new ArrayList<>();
		for (int n = 0; n < TASKS; n++) {
			int number = n;
			results.add(threads.submit(() -> {
				Thread.sleep(1);
				return number;
			}));
		}
		int sum = 0;
		for (Future<Integer> result : results) {
			sum += result.get();
		}
		threads.shutdown();
		System.out.println("sum " + sum);
	}
}
