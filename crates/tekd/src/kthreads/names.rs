// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of the kernel's functions, for reports on kernel threads.
//!
//! The list of functions is long (/proc/kallsyms), so an ordinary thread reads the names and ends.
//! Until then a function has no name.
use super::system;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::Builder;
use tek_effect::PiMutex;

const STACK_BYTES: usize = 256 << 10;

/// The names by address; the name is empty for an address that belongs to no function.
#[derive(Clone)]
pub struct Names {
    known: Arc<PiMutex<HashMap<u64, String>>>,
    is_looking: Arc<AtomicBool>,
}

impl Names {
    pub fn new() -> Self {
        Self { known: Arc::new(PiMutex::new(HashMap::new())), is_looking: Arc::default() }
    }

    /// The known names. A thread reads the missing names for later calls.
    pub fn of(&self, addresses: &[u64]) -> HashMap<u64, String> {
        let mut missing = Vec::new();
        let mut found = HashMap::new();
        {
            let known = self.known.lock();
            for address in addresses {
                match known.get(address) {
                    Some(name) if name.is_empty() => {}
                    Some(name) => drop(found.insert(*address, name.clone())),
                    None => missing.push(*address),
                }
            }
        }
        if !missing.is_empty() && !self.is_looking.swap(true, Ordering::AcqRel) {
            let own = self.clone();
            let examine = move || own.resolve(&missing);
            let thread =
                Builder::new().name("names".to_owned()).stack_size(STACK_BYTES).spawn(examine);
            if thread.is_err() {
                self.is_looking.store(false, Ordering::Release);
            }
        }
        found
    }

    fn resolve(&self, addresses: &[u64]) {
        let mut found = system::functions(|address, _| addresses.contains(&address));
        let named = addresses.iter().map(|it| (*it, found.remove(it).unwrap_or_default()));
        let named: Vec<_> = named.collect();
        self.known.lock().extend(named);
        self.is_looking.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_function_has_its_name_a_little_later() {
        let wanted = system::functions(|_, name| name == "wb_workfn");
        let Some((address, name)) = wanted.into_iter().next() else { return };
        let (names, no_function) = (Names::new(), address + 1);
        assert!(names.of(&[address, no_function]).is_empty());
        let is_found = (0..2000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            names.of(&[address, no_function]).get(&address) == Some(&name)
        });
        assert!(is_found);
        assert!(!names.is_looking.load(Ordering::Acquire), "what is no function is known, too");
    }
}
