// SPDX-License-Identifier: MIT OR Apache-2.0
//! A lock with priority inheritance (PTHREAD_PRIO_INHERIT): the owner inherits its waiters'
//! priority. The standard library's lock has none, so threads of middle priority can delay a
//! low-priority owner.
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// A lock around a value that several threads use.
pub struct PiMutex<T> {
    // Boxed, because the kernel and waiting threads know it by its address.
    raw: Box<UnsafeCell<libc::pthread_mutex_t>>,
    value: UnsafeCell<T>,
}

// SAFETY: only the owner of the lock accesses the value, and the value may go to any thread.
unsafe impl<T: Send> Send for PiMutex<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for PiMutex<T> {}

impl<T> PiMutex<T> {
    /// A lock that no thread has.
    pub fn new(value: T) -> Self {
        let raw = Box::new(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
        // SAFETY: the attributes are initialised before they are used and destroyed once; the lock
        // is not used before it is initialised.
        unsafe {
            let mut attributes = std::mem::zeroed();
            libc::pthread_mutexattr_init(&raw mut attributes);
            libc::pthread_mutexattr_setprotocol(&raw mut attributes, libc::PTHREAD_PRIO_INHERIT);
            // Without such locks in the kernel it stays one without inheritance.
            libc::pthread_mutex_init(raw.get(), &raw const attributes);
            libc::pthread_mutexattr_destroy(&raw mut attributes);
        }
        Self { raw, value: UnsafeCell::new(value) }
    }

    /// Waits for the lock. A thread that owns the lock must not call this.
    pub fn lock(&self) -> PiGuard<'_, T> {
        // SAFETY: it is initialised, and stays where it is.
        let error = unsafe { libc::pthread_mutex_lock(self.raw.get()) };
        assert_eq!(error, 0, "a lock cannot be taken");
        PiGuard(self, PhantomData)
    }

    /// `None`: a thread owns the lock.
    pub fn try_lock(&self) -> Option<PiGuard<'_, T>> {
        // SAFETY: as above.
        let error = unsafe { libc::pthread_mutex_trylock(self.raw.get()) };
        (error == 0).then_some(PiGuard(self, PhantomData))
    }
}

impl<T> Drop for PiMutex<T> {
    fn drop(&mut self) {
        // SAFETY: no thread owns the lock, because no reference to it exists.
        unsafe { libc::pthread_mutex_destroy(self.raw.get()) };
    }
}

/// Ownership of the lock until it is dropped, by the thread that took the lock.
pub struct PiGuard<'a, T>(&'a PiMutex<T>, PhantomData<*const ()>);

impl<T> Deref for PiGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: we have the lock.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for PiGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: we have the lock.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for PiGuard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: this thread took it, for what has a raw pointer goes to no other.
        unsafe { libc::pthread_mutex_unlock(self.0.raw.get()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_process_that_does_not_wait_gets_it_when_nobody_has_it() {
        let lock = PiMutex::new(1);
        let guard = lock.lock();
        std::thread::scope(|scope| {
            assert!(scope.spawn(|| lock.try_lock().is_none()).join().unwrap())
        });
        drop(guard);
        assert_eq!(lock.try_lock().map(|it| *it), Some(1));
    }

    #[test]
    fn one_at_a_time_has_it() {
        let count = Arc::new(PiMutex::new(0));
        let add = || {
            let count = Arc::clone(&count);
            std::thread::spawn(move || (0..10_000).for_each(|_| *count.lock() += 1))
        };
        let threads: Vec<_> = (0..4).map(|_| add()).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(*count.lock(), 40_000);
    }
}
