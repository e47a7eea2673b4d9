// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles bpf/kthreads.bpf.c with clang. Of the compilers in Debian 12 only clang emits CO-RE
//! data.
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The default compiler first, then the newest first. Version 14 is the oldest tested version.
const COMPILERS: [&str; 7] =
    ["clang", "clang-22", "clang-19", "clang-18", "clang-17", "clang-16", "clang-14"];

const ADVICE: &str = "bpf/kthreads.bpf.c needs clang, 14 or later, with BPF among its targets. \
                      Debian's package is clang: run tools/setup, or apt-get install clang. \
                      TEK_CLANG names another one";

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

/// The name that libbpf's headers use for the processor: it selects the registers of arguments.
fn architecture() -> String {
    match variable("CARGO_CFG_TARGET_ARCH").as_str() {
        "x86_64" => "x86".to_owned(),
        "aarch64" => "arm64".to_owned(),
        "riscv64" => "riscv".to_owned(),
        "powerpc64" => "powerpc".to_owned(),
        "s390x" => "s390".to_owned(),
        "loongarch64" => "loongarch".to_owned(),
        other => other.to_owned(),
    }
}

/// The error is the compiler's output, or `None` where the compiler does not exist.
fn compile(compiler: &OsString, source: &Path, object: &Path) -> Result<(), Option<String>> {
    let target = if variable("CARGO_CFG_TARGET_ENDIAN") == "big" { "bpfeb" } else { "bpfel" };
    let directory = source.parent().unwrap_or(Path::new("."));
    let output = Command::new(compiler)
        .args(["-O2", "-g", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"])
        .args(["-target", target, "-mcpu=v3", "-c"])
        .arg(format!("-D__TARGET_ARCH_{}", architecture()))
        .arg(format!("-I{}", variable("DEP_BPF_INCLUDE")))
        // The debug information is used for its types only, so it needs no paths of this machine.
        .arg(format!("-fdebug-prefix-map={}=bpf", directory.display()))
        .arg(source)
        .arg("-o")
        .arg(object)
        .output()
        .map_err(|_| None)?;
    match output.status.success() {
        true => Ok(()),
        false => Err(Some(String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}

/// Removes the half of the object that libbpf does not read: debug information, and relocations of
/// BTF. Without an llvm-strip beside the compiler the object stays as it is.
fn strip(compiler: &OsString, object: &Path) {
    let asked = Command::new(compiler).arg("--print-prog-name=llvm-strip").output();
    let path = asked.map(|asked| String::from_utf8_lossy(&asked.stdout).trim().to_owned());
    if let Ok(path) = path {
        let unread = ["-g", "--remove-section=.rel.BTF", "--remove-section=.rel.BTF.ext"];
        let _ = Command::new(path).args(unread).arg(object).output();
    }
}

/// Writes a compressed copy beside the object: for the program, which is small then.
#[cfg(feature = "load")]
fn compress(object: &Path) -> ExitCode {
    let bytes = std::fs::read(object).unwrap_or_default();
    let compressed = miniz_oxide::deflate::compress_to_vec(&bytes, 10);
    match std::fs::write(object.with_extension("o.deflate"), compressed) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cannot write beside {}: {error}", object.display());
            ExitCode::FAILURE
        }
    }
}

#[cfg(not(feature = "load"))]
fn compress(_: &Path) -> ExitCode {
    ExitCode::SUCCESS
}

fn main() -> ExitCode {
    let directory = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("../../bpf");
    println!("cargo:rerun-if-changed={}", directory.display());
    println!("cargo:rerun-if-env-changed=TEK_CLANG");
    let wide = variable("CARGO_CFG_TARGET_POINTER_WIDTH") == "64";
    println!("cargo:rustc-check-cfg=cfg(loads)");
    if env::var_os("CARGO_FEATURE_LOAD").is_none() || !wide {
        return ExitCode::SUCCESS;
    }
    println!("cargo:rustc-cfg=loads");
    let source = directory.join("kthreads.bpf.c");
    let object = PathBuf::from(variable("OUT_DIR")).join("kthreads.bpf.o");
    let compilers: Vec<OsString> = match env::var_os("TEK_CLANG") {
        Some(compiler) => vec![compiler],
        None => COMPILERS.map(OsString::from).to_vec(),
    };
    let mut errors = String::new();
    for compiler in &compilers {
        match compile(compiler, &source, &object) {
            Ok(()) => {
                strip(compiler, &object);
                return compress(&object);
            }
            Err(Some(text)) => {
                errors.push_str(&format!("{} says:\n{text}\n", compiler.to_string_lossy()));
            }
            Err(None) => {}
        }
    }
    eprintln!("{errors}{ADVICE}");
    ExitCode::FAILURE
}
