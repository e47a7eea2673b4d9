// SPDX-License-Identifier: MIT OR Apache-2.0

// Goroutines that call C, and a look-up of a name by the C library. Prints the results.
package main

/*
#include <stdlib.h>
static int twice(int n) { return 2 * n; }
*/
import "C"

import (
	"fmt"
	"net"
	"os"
	"sync"
)

func main() {
	var all sync.WaitGroup
	var lock sync.Mutex
	sum := 0
	for n := 0; n < 100; n++ {
		all.Add(1)
		go func(n int) {
			defer all.Done()
			twice := int(C.twice(C.int(n)))
			lock.Lock()
			sum += twice
			lock.Unlock()
		}(n)
	}
	all.Wait()
	addresses, err := net.LookupHost("localhost")
	if err != nil || len(addresses) == 0 {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("sum", sum, "localhost found")
}
