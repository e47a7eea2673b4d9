// SPDX-License-Identifier: MIT OR Apache-2.0

// Goroutines that each keep a thread, until the end of standard input.
package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"time"
)

func main() {
	ready := make(chan bool)
	for i := 0; i < 8; i++ {
		go func() {
			runtime.LockOSThread()
			ready <- true
			time.Sleep(time.Minute)
		}()
	}
	for i := 0; i < 8; i++ {
		<-ready
	}
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
}
