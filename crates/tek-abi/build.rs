// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes Rust of abi/tek_options.h and abi/tek_targets.h: an array of kinds for each list, a
//! constant for each limit.
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

fn main() {
    let directory = env::var("CARGO_MANIFEST_DIR").expect("cargo names the crate's directory");
    let out = env::var("OUT_DIR").expect("cargo names the directory of the result");
    println!("cargo::rerun-if-changed=build.rs");
    for name in ["options", "targets"] {
        let header = Path::new(&directory).join(format!("../../abi/tek_{name}.h"));
        println!("cargo::rerun-if-changed={}", header.display());
        let text = fs::read_to_string(&header)
            .unwrap_or_else(|error| panic!("{}: {error}", header.display()));
        fs::write(Path::new(&out).join(format!("{name}.rs")), constants(&text))
            .unwrap_or_else(|error| panic!("{out}: {error}"));
    }
}

/// The constants for all `#define TEK_NAME VALUE` and `#define TEK_NAME(kind) ...`, the latter also
/// in a module with a constant for each kind.
fn constants(header: &str) -> String {
    let mut result = String::new();
    let lines = header.replace("\\\n", " ");
    for defined in lines.lines().filter_map(|line| line.strip_prefix("#define TEK_")) {
        let Some((name, value)) = defined.split_once(char::is_whitespace) else { continue };
        let _ = match name.split_once('(') {
            Some((name, parameter)) => write_list(&mut result, name, parameter, value),
            None => write_limit(&mut result, name, value),
        };
    }
    result
}

fn write_limit(result: &mut String, name: &str, value: &str) -> std::fmt::Result {
    let value = value.split("/*").next().unwrap_or_default().trim();
    let digits = value.trim_end_matches("ull");
    let number: u64 = digits.parse().unwrap_or_else(|_| panic!("TEK_{name} is no number: {value}"));
    let kind = if u32::try_from(number).is_ok() { "u32" } else { "u64" };
    writeln!(result, "/// `TEK_{name}`\npub const {name}: {kind} = {number};")
}

fn write_list(result: &mut String, name: &str, parameter: &str, calls: &str) -> std::fmt::Result {
    let parameter = parameter.trim_end_matches(')');
    let begin = format!("{parameter}(");
    let mut rest = calls.trim();
    let (mut kinds, mut named) = (String::new(), String::new());
    let mut count = 0;
    while !rest.is_empty() {
        let arguments = rest.strip_prefix(&begin).and_then(|rest| rest.split_once(','));
        let (identifier, arguments) = arguments
            .unwrap_or_else(|| panic!("TEK_{name}: expected {begin}IDENTIFIER, ... at {rest}"));
        let (text, behind) = string(arguments);
        let (about, behind) = string(behind.trim_start().trim_start_matches(','));
        let kind = format!("Kind {{ name: {text:?}, about: {about:?} }}");
        write!(kinds, "{kind}, ")?;
        let identifier = identifier.to_uppercase();
        writeln!(named, "/// `{text}`\npub const {identifier}: super::Kind = super::{kind};")?;
        count += 1;
        let behind = behind.trim_start().strip_prefix(')');
        rest = behind.unwrap_or_else(|| panic!("TEK_{name}: expected ) behind {about}")).trim();
    }
    let list = name.trim_start_matches("TARGETS_");
    writeln!(result, "/// `TEK_{name}`\npub const {list}: [Kind; {count}] = [{kinds}];")?;
    let module = list.to_lowercase();
    writeln!(result, "/// Each of [`{list}`], by its identifier.\npub mod {module} {{\n{named}}}")
}

/// The string literals at the beginning, joined, and the text behind them.
fn string(text: &str) -> (String, &str) {
    let (mut value, mut rest) = (String::new(), text.trim_start());
    while let Some(inside) = rest.strip_prefix('"') {
        let (part, behind) = inside.split_once('"').expect("a string literal ends");
        assert!(!part.contains('\\'), "a string with an escape: {part}");
        value.push_str(part);
        rest = behind.trim_start();
    }
    assert!(!value.is_empty(), "expected a string literal at {text}");
    (value, rest)
}
