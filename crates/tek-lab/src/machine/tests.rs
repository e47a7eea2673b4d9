// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use crate::Kinds;

fn kernel(architecture: &str) -> Obtained {
    Obtained {
        release: "7.2".into(),
        architecture: architecture.into(),
        image: "/cache/vmlinuz".into(),
        modules: None,
        config: None,
    }
}

fn log(kind: &str, gdb: Option<u16>, accelerated: bool, disk: Option<i32>) -> String {
    let kinds = Kinds::own();
    let kind = kinds.kind(kind).unwrap();
    let kernel = kernel(&kinds.kernel(&kind.kernel).unwrap().architecture);
    let initramfs = &tempfile::tempfile().unwrap();
    let acceleration = &Acceleration::new(false, None, "7.2");
    let plan = Plan { gdb, ..simple(kind, &kernel, initramfs, acceleration) };
    described(&plan, accelerated, disk)
}

fn simple<'a>(
    kind: &'a Kind,
    kernel: &'a Obtained,
    initramfs: &'a File,
    acceleration: &'a Acceleration,
) -> Plan<'a> {
    Plan { kind, kernel, initramfs, gdb: None, terminal: None, acceleration, in_turns: false }
}

fn described(plan: &Plan, accelerated: bool, disk: Option<i32>) -> String {
    let files = Files { port: 5, console: 6, initramfs: 7, disk, terminal: Some(9) };
    let processor = Processor::of(&plan.kernel.architecture).unwrap();
    arguments(plan, &processor, accelerated, &files).join(" ")
}

#[test]
fn a_machine_has_what_its_kind_describes() {
    let log = log("irqthreads", None, false, Some(8));
    for part in [
        "-machine q35",
        "-cpu max",
        "-accel tcg",
        "-smp 2",
        "-m 1048576K",
        "-kernel /cache/vmlinuz",
        "-initrd /proc/self/fd/7",
        "-append console=ttyS0 panic=-1 no_timer_check tsc=reliable threadirqs",
        "-chardev socket,id=port,fd=5",
        "-chardev socket,id=console,fd=6",
        "-chardev socket,id=terminal,fd=9",
        "name=tek.lab",
        "file=/proc/self/fd/8",
    ] {
        assert!(log.contains(part), "{part} is not in {log}");
    }
    assert!(!log.contains("kvm") && !log.contains("gdb") && !log.contains(" -S"));
}

#[test]
fn the_board_is_a_32_bit_arm() {
    let log = log("board", None, false, None);
    for part in ["-machine virt,highmem=off", "-cpu cortex-a15", "console=ttyAMA0", "-smp 4"] {
        assert!(log.contains(part), "{part} is not in {log}");
    }
    assert!(!log.contains("-drive"));
    assert!(!Processor::of("armhf").unwrap().own);
}

#[test]
fn a_64_bit_arm_signs_no_pointers() {
    let log = log("arm64", None, true, None);
    for part in ["-machine virt -cpu cortex-a72", "console=ttyAMA0", "-smp 4"] {
        assert!(log.contains(part), "{part} is not in {log}");
    }
    let arm64 = Processor::of("arm64").unwrap();
    assert_eq!((arm64.qemu, arm64.package[0].0), ("qemu-system-aarch64", "qemu-system-arm"));
}

#[test]
fn memory_without_a_unit_is_in_bytes() {
    let kinds = Kinds::own();
    let mut kind = kinds.kind("rt").unwrap().clone();
    kind.memory = "1073741824".into();
    let kernel = kernel("amd64");
    let initramfs = &tempfile::tempfile().unwrap();
    let acceleration = &Acceleration::new(false, None, "7.2");
    let log = described(&simple(&kind, &kernel, initramfs, acceleration), false, None);
    assert!(log.contains("-m 1048576K "), "{log}");
}

#[test]
fn emulated_cpus_may_run_one_at_a_time() {
    let kinds = Kinds::own();
    let (kind, kernel) = (kinds.kind("rt").unwrap(), kernel("amd64"));
    let initramfs = &tempfile::tempfile().unwrap();
    let acceleration = &Acceleration::new(false, None, "7.2");
    let plan = Plan { in_turns: true, ..simple(kind, &kernel, initramfs, acceleration) };
    let text = described(&plan, true, None);
    assert!(text.contains("-accel kvm -accel tcg,thread=single -smp 2"));
}

#[test]
fn time_is_counted_by_instructions_where_emulated_cpus_run_one_at_a_time() {
    let kinds = Kinds::own();
    let (kind, kernel) = (kinds.kind("rt").unwrap(), kernel("amd64"));
    let initramfs = &tempfile::tempfile().unwrap();
    let acceleration = &Acceleration::new(false, None, "7.2");
    let plan = simple(kind, &kernel, initramfs, acceleration);
    let in_turns = Plan { in_turns: true, ..simple(kind, &kernel, initramfs, acceleration) };
    assert!(described(&in_turns, false, None).contains("-icount shift=2,sleep=off -smp 2"));
    // QEMU refuses it where the processor is this machine's own.
    assert!(!described(&in_turns, true, None).contains("icount"));
    assert!(!described(&plan, false, None).contains("icount"));
    for release in ["6.1.0-49-rt-amd64", ""] {
        let older = Obtained { release: release.into(), ..kernel.clone() };
        let plan = Plan { in_turns: true, ..simple(kind, &older, initramfs, acceleration) };
        assert!(!described(&plan, false, None).contains("icount"), "{release}");
    }
}

#[test]
fn gdb_finds_symbols_where_they_are() {
    let log = log("rt", Some(1234), false, None);
    assert!(log.contains("-gdb tcp:127.0.0.1:1234 -S"));
    assert!(log.contains("panic=-1 no_timer_check tsc=reliable nokaslr"));
}

#[test]
fn an_own_processor_is_tried_first() {
    assert!(log("rt", None, true, None).contains("-accel kvm -accel tcg"));
}

#[test]
fn files_that_do_not_fit_into_memory_are_reported_with_a_size_that_does() {
    let kinds = Kinds::own();
    let kind = kinds.kind("small").unwrap();
    let kernel = kernel("amd64");
    let initramfs = &tempfile::tempfile().unwrap();
    let acceleration = &Acceleration::new(false, None, "7.2");
    let plan = simple(kind, &kernel, initramfs, acceleration);
    initramfs.set_len(64 << 20).unwrap();
    check_memory(&plan).unwrap();
    initramfs.set_len(65 << 20).unwrap();
    assert_eq!(
        check_memory(&plan).unwrap_err().to_string(),
        "the guest's files take 65 MB, and three times that while it boots, which is too much \
             for its memory of 256M: give it more (--memory 384M), or take less into it"
    );
}

#[test]
fn an_unknown_architecture_is_refused() {
    let error = Processor::of("m68k").err().unwrap();
    assert!(error.to_string().contains("m68k; amd64, arm64 and armhf"));
}

#[test]
fn a_disk_is_empty_and_has_no_name() {
    use std::os::unix::fs::MetadataExt;
    let about = disk("64M").unwrap().metadata().unwrap();
    assert_eq!((about.len(), about.blocks(), about.nlink()), (64 << 20, 0, 0));
    assert!(matches!(disk("64MB"), Err(Error::Size(_))));
}
