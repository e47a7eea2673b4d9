// SPDX-License-Identifier: MIT OR Apache-2.0
//! Locks of the C library, in memory that a test chooses.
use std::cell::UnsafeCell;
use std::ptr;

/// A pthread mutex.
pub struct Mutex(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: threads change the mutex by the functions of the C library only.
unsafe impl Sync for Mutex {}
// SAFETY: no thread owns the memory of a mutex.
unsafe impl Send for Mutex {}

impl Mutex {
    pub fn new(kind: i32, robust: bool) -> Box<Self> {
        let this = Box::new(Self(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER)));
        this.init(kind, robust, false);
        this
    }

    /// Initialises it in shared memory.
    pub fn init(&self, kind: i32, robust: bool, shared: bool) {
        // SAFETY: the attributes and the mutex are valid memory, and no thread uses them yet.
        unsafe {
            let mut attributes = std::mem::zeroed();
            assert_eq!(libc::pthread_mutexattr_init(&raw mut attributes), 0);
            assert_eq!(libc::pthread_mutexattr_settype(&raw mut attributes, kind), 0);
            if robust {
                let robust = libc::PTHREAD_MUTEX_ROBUST;
                assert_eq!(libc::pthread_mutexattr_setrobust(&raw mut attributes, robust), 0);
            }
            if shared {
                let shared = libc::PTHREAD_PROCESS_SHARED;
                assert_eq!(libc::pthread_mutexattr_setpshared(&raw mut attributes, shared), 0);
            }
            assert_eq!(libc::pthread_mutex_init(self.0.get(), &raw const attributes), 0);
        }
    }

    pub fn address(&self) -> u64 {
        self.0.get() as u64
    }

    pub fn lock(&self) {
        // SAFETY: the mutex is initialised.
        assert_eq!(unsafe { libc::pthread_mutex_lock(self.0.get()) }, 0);
    }

    pub fn unlock(&self) {
        // SAFETY: the mutex is initialised.
        assert_eq!(unsafe { libc::pthread_mutex_unlock(self.0.get()) }, 0);
    }

    /// Gives up after this time: ETIMEDOUT.
    pub fn lock_for(&self, nanoseconds: i64) -> i32 {
        // SAFETY: the mutex is initialised, and the C library reads and writes one timespec.
        unsafe {
            let mut until: libc::timespec = std::mem::zeroed();
            libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut until);
            until.tv_nsec += nanoseconds;
            until.tv_sec += until.tv_nsec / 1_000_000_000;
            until.tv_nsec %= 1_000_000_000;
            libc::pthread_mutex_timedlock(self.0.get(), &raw const until)
        }
    }
}

/// A pthread reader-writer lock.
pub struct RwLock(UnsafeCell<libc::pthread_rwlock_t>);

// SAFETY: threads change the lock by the functions of the C library only.
unsafe impl Sync for RwLock {}
// SAFETY: no thread owns the memory of a lock.
unsafe impl Send for RwLock {}

impl RwLock {
    pub fn new() -> Box<Self> {
        Box::new(Self(UnsafeCell::new(libc::PTHREAD_RWLOCK_INITIALIZER)))
    }

    pub fn read(&self) {
        // SAFETY: the lock is initialised.
        assert_eq!(unsafe { libc::pthread_rwlock_rdlock(self.0.get()) }, 0);
    }

    pub fn write(&self) {
        // SAFETY: the lock is initialised.
        assert_eq!(unsafe { libc::pthread_rwlock_wrlock(self.0.get()) }, 0);
    }

    pub fn unlock(&self) {
        // SAFETY: the lock is initialised.
        assert_eq!(unsafe { libc::pthread_rwlock_unlock(self.0.get()) }, 0);
    }
}

/// Memory that a child process shares after fork().
pub fn shared<T>() -> &'static T {
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the kernel chooses the address. The pages are zero, and stay until the process ends.
    unsafe {
        let page = libc::mmap(ptr::null_mut(), 4096, access, flags, -1, 0);
        assert_ne!(page, libc::MAP_FAILED);
        &*page.cast::<T>()
    }
}

/// Sleeps in futex(2) while the word has this value, at most this time.
pub fn futex_wait(word: &[u32], value: u32, private: bool, nanoseconds: i64) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: nanoseconds };
    let command = libc::FUTEX_WAIT | if private { libc::FUTEX_PRIVATE_FLAG } else { 0 };
    // SAFETY: the kernel reads one word and one timespec.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), command, value, &raw const time) };
}
