// SPDX-License-Identifier: MIT OR Apache-2.0

// Goroutines that each keep a thread, until the end of standard input. It imports only packages
// that every program needs, because Go's library is compiled again.
package main

import (
	"runtime"
	"syscall"
)

func main() {
	ready, never := make(chan bool), make(chan bool)
	for i := 0; i < 8; i++ {
		go func() {
			runtime.LockOSThread()
			ready <- true
			<-never
		}()
	}
	for i := 0; i < 8; i++ {
		<-ready
	}
	syscall.Write(1, []byte("ready\n"))
	input := make([]byte, 100)
	for n, _ := syscall.Read(0, input); n > 0; n, _ = syscall.Read(0, input) {
	}
}
