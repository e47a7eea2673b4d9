// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kinds of locks of libtek-sync.so: values of `--lock` and its like.
use crate::kinds;

kinds! {
    /// Kinds of mutexes: `TEK_LOCK_KINDS`.
    Lock of LOCK_KINDS
}

kinds! {
    /// Kinds of read-write locks: `TEK_RWLOCK_KINDS`.
    Rwlock of RWLOCK_KINDS
}

kinds! {
    /// Kinds of barriers: `TEK_BARRIER_KINDS`.
    Barrier of BARRIER_KINDS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::kind::name_of;
    use clap::ValueEnum;
    use std::ffi::OsStr;
    use std::fs;
    use std::path::Path;

    /// The names in the files of lib/sync with this beginning.
    fn names(beginning: &str) -> Vec<String> {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lib/sync");
        let quoted = |text: &str| {
            let (_, rest) = text.split_once(".name = \"")?;
            Some(rest.split_once('"')?.0.to_owned())
        };
        let mut found: Vec<_> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(beginning))
            .filter(|path| path.extension() == Some(OsStr::new("c")))
            .filter_map(|path| quoted(&fs::read_to_string(&path).unwrap()))
            .collect();
        found.sort();
        found
    }

    fn known<T: ValueEnum>() -> Vec<String> {
        let mut names: Vec<_> =
            T::value_variants().iter().map(|value| name_of(value.clone())).collect();
        names.sort();
        names
    }

    #[test]
    fn each_file_of_the_library_is_in_the_list() {
        assert_eq!(known::<Lock>(), names("lock_"));
        assert_eq!(known::<Rwlock>(), names("rwlock_"));
        assert_eq!(known::<Barrier>(), names("barrier_"));
    }
}
