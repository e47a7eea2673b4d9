// SPDX-License-Identifier: MIT OR Apache-2.0

// Goroutines that send on a channel. Prints the sum of what arrived.
package main

import "fmt"

const (
	senders  = 50
	messages = 100
)

func main() {
	numbers := make(chan int)
	for range make([]struct{}, senders) {
		go func() {
			for n := 0; n < messages; n++ {
				numbers <- n
			}
		}()
	}
	sum := 0
	for n := 0; n < senders*messages; n++ {
		sum += <-numbers
	}
	fmt.Println("sum", sum)
}
