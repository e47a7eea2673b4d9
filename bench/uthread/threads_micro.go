// SPDX-License-Identifier: MIT OR Apache-2.0

// The calls of threads_micro.c, of Go's goroutines on one processor. Prints the same line of JSON.
//
// Usage: PROGRAM [ROUNDS]
package main

import (
	"encoding/json"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

func since(begin time.Time, count int) float64 {
	return float64(time.Since(begin).Nanoseconds()) / float64(count)
}

func yield(times int) float64 {
	var over atomic.Bool
	yields := 0
	ended := make(chan bool)
	go func() {
		for !over.Load() {
			yields++
			runtime.Gosched()
		}
		ended <- true
	}()
	runtime.Gosched()
	yields = 0
	begin := time.Now()
	for i := 0; i < times; i++ {
		runtime.Gosched()
	}
	ns := since(begin, times+yields)
	over.Store(true)
	<-ended
	return ns
}

func create(times int) float64 {
	var ended sync.WaitGroup
	begin := time.Now()
	for i := 0; i < times; i++ {
		ended.Add(1)
		go ended.Done()
		ended.Wait()
	}
	return since(begin, times)
}

func mutexPair(times int) float64 {
	var mutex sync.Mutex
	begin := time.Now()
	for i := 0; i < times; i++ {
		mutex.Lock()
		mutex.Unlock() //nolint:staticcheck // that is what is measured
	}
	return since(begin, times)
}

func pingPong(times int) float64 {
	var mutex sync.Mutex
	cond := sync.NewCond(&mutex)
	turn := 0
	play := func(own int) {
		mutex.Lock()
		for i := 0; i < times; i++ {
			for turn != own {
				cond.Wait()
			}
			turn = 1 - own
			cond.Signal()
		}
		mutex.Unlock()
	}
	ended := make(chan bool)
	go func() {
		play(1)
		ended <- true
	}()
	begin := time.Now()
	play(0)
	<-ended
	return since(begin, 2*times)
}

type call struct {
	Name    string    `json:"name"`
	Ns      []float64 `json:"ns"`
	measure func(times int) float64
	times   int
}

type result struct {
	On        string `json:"on"`
	UserLevel bool   `json:"user_level"`
	Calls     []call `json:"calls"`
}

func main() {
	runtime.GOMAXPROCS(1)
	rounds := 101
	if len(os.Args) > 1 {
		number, err := strconv.Atoi(os.Args[1])
		if err != nil || number < 1 || number > 10000 {
			os.Stderr.WriteString("ROUNDS: 1 to 10000\n")
			os.Exit(2)
		}
		rounds = number
	}
	calls := []call{
		{Name: "yield", measure: yield},
		{Name: "create and join", measure: create},
		{Name: "mutex pair", measure: mutexPair},
		{Name: "cond ping-pong", measure: pingPong},
	}
	for i := range calls {
		times := 16
		for calls[i].measure(times)*float64(times) < 5e5 {
			times *= 2
		}
		calls[i].times = int(2e6/calls[i].measure(times)) + 1
	}
	for round := 0; round < rounds; round++ {
		for i := range calls {
			calls[i].Ns = append(calls[i].Ns, calls[i].measure(calls[i].times))
		}
	}
	json.NewEncoder(os.Stdout).Encode(result{"Go", true, calls})
}
