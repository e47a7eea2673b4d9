// SPDX-License-Identifier: MIT OR Apache-2.0
//! A mutex of Rust's standard library for bench/matrix/rust.c.

use std::sync::{Mutex, PoisonError};

static MUTEX: Mutex<()> = Mutex::new(());

/// Locks the mutex, calls the function, and unlocks the mutex.
#[no_mangle]
pub extern "C" fn matrix_with_mutex(held: extern "C" fn()) {
    let _guard = MUTEX.lock().unwrap_or_else(PoisonError::into_inner);
    held();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    static CALLS: AtomicU32 = AtomicU32::new(0);

    extern "C" fn count_if_locked() {
        CALLS.fetch_add(u32::from(MUTEX.try_lock().is_err()), Relaxed);
    }

    #[test]
    fn the_function_is_called_while_the_mutex_is_locked() {
        matrix_with_mutex(count_if_locked);
        assert_eq!(CALLS.load(Relaxed), 1);
        assert!(MUTEX.try_lock().is_ok());
    }
}
