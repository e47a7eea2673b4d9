// SPDX-License-Identifier: MIT OR Apache-2.0
//! The crate without its loader, as on 32-bit processors, has the functions of the crate with it.
use regex::Regex;
use std::collections::BTreeSet;
use std::path::Path;

fn functions(files: &[&str]) -> BTreeSet<String> {
    let name = Regex::new(r"(?m)^    pub fn (\w+)").unwrap();
    let read = |file: &&str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(file);
        std::fs::read_to_string(path).unwrap()
    };
    let text: String = files.iter().map(read).collect();
    name.captures_iter(&text).map(|found| found[1].to_owned()).collect()
}

#[test]
fn builds_with_and_without_bpf_have_the_same_functions() {
    assert_eq!(functions(&["without.rs"]), functions(&["kthreads.rs", "watcher.rs"]));
}
