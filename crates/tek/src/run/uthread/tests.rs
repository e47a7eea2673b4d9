// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use crate::run::parsed::{parsed, tried};
use proptest::prelude::*;

mod reader {
    include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/reader.rs"));
}

/// The arguments of `tek run` with these options.
fn args(options: &str) -> Args {
    parsed(&format!("{options} -- true"))
}

fn planned(options: &str, inherited: &str) -> Result<Option<String>, String> {
    let plan = plan(&args(options), Some(OsStr::new(inherited)))?;
    Ok(plan.map(|plan| plan.variable.into_string().unwrap()))
}

fn variable(options: &str, inherited: &str) -> String {
    planned(options, inherited).unwrap().unwrap()
}

/// The option of a setting, with the scheduler that it is for.
fn option_of(name: &str, value: &str) -> Vec<String> {
    let option = if name == "lock" { "engine-lock" } else { name };
    let sched = match name {
        "promote" => "mlfq",
        "lock" | "pool" => "fifo",
        "sched" => value,
        _ => "rr",
    };
    let mut words = vec!["--model=m:n".to_owned(), format!("--sched={sched}")];
    if name != "sched" {
        words.push(format!("--{option}={value}"));
    }
    words
}

/// The meaning of the value that is written for a setting: "workers=3".
fn meaning(name: &str, value: &str) -> Option<String> {
    let words = option_of(name, value).into_iter().chain(["--".to_owned(), "true".to_owned()]);
    let args: Args = tried(words).ok()?;
    let variable = plan(&args, None).ok()??.variable;
    let settings = Settings::inherited(Some(&variable));
    let written = settings.get(name)?;
    Some(match name {
        "quantum" => format!("{name}={}", written.parse::<Quantum>().unwrap().0.as_nanos()),
        _ => format!("{name}={written}"),
    })
}

#[test]
fn the_variable_is_written_as_the_engine_reads_it() {
    for vector in reader::read("options.txt") {
        let (text, place) = (vector.word(2), &vector.place);
        if vector.word(0) != VARIABLE {
            continue;
        }
        if vector.word(1) == "written" {
            assert_eq!(variable(vector.word(3), ""), text, "{place}");
            continue;
        }
        let (name, value) = text.split_once('=').unwrap();
        let taken = (vector.word(1) == "taken").then(|| vector.word(3).to_owned());
        assert_eq!(meaning(name, value), taken, "{place}");
    }
}

#[test]
fn each_model_has_its_workers_and_its_usual_scheduler() {
    assert_eq!(planned("", ""), Ok(None));
    assert_eq!(planned("--model 1:1", "workers=3"), Ok(None));
    assert_eq!(variable("--model m:1", ""), "workers=1,sched=rr");
    assert_eq!(variable("--model M:N --workers 3", ""), "workers=3,sched=steal");
    assert_eq!(variable("--model m:n", ""), format!("workers={},sched=steal", cpus()));
}

#[test]
fn all_options_become_one_list() {
    let options = "--model m:n --workers 4 --sched fifo --quantum 200us --preempt klt \
                       --engine-lock worker --pool 64";
    assert_eq!(
        variable(options, ""),
        "workers=4,sched=fifo,quantum=200us,preempt=klt,lock=worker,pool=64"
    );
}

#[test]
fn what_the_engine_knows_can_be_asked_for() {
    let options = "--model m:n --workers 2 --sched mlfq --promote 50 --pin --stack 32K";
    assert_eq!(variable(options, ""), "workers=2,sched=mlfq,promote=50,pin,stack=32768");
    assert_eq!(
        variable("--model m:1 --pin --stack 1M", "pin,stack=16K,sched=mlfq,promote=3"),
        "sched=mlfq,promote=3,workers=1,pin,stack=1048576"
    );
    assert_eq!(variable("--model m:1 --promote 9", "sched=mlfq"), "sched=mlfq,workers=1,promote=9");
    for options in ["--promote 9", "--sched fifo --promote 9"] {
        let printed = planned(&format!("--model m:1 {options}"), "").unwrap_err();
        assert!(printed.starts_with("--promote is for --sched mlfq"), "{printed}");
    }
}

#[test]
fn a_placement_is_for_the_workers() {
    let cpu = crate::system::topology::allowed()[0];
    assert_eq!(
        variable(&format!("--model m:n --place cores={cpu}"), "pin"),
        format!("workers=1,sched=steal,pin={cpu}")
    );
    let refused = |options: &str| planned(&format!("--model m:n {options}"), "").unwrap_err();
    assert!(refused("--place rtfifo").contains("--sched fifo"));
    assert!(refused("--place spread --pin").starts_with("--pin and --place"));
    assert!(planned("--place cores=1023", "").unwrap_err().contains("CPU 1023"));
    assert_eq!(planned("--place rtfifo", ""), Ok(None));
}

#[test]
fn the_environment_gives_defaults() {
    assert_eq!(
        variable("--model m:n --quantum 1ms", "workers=7,quantum=5ms,pin,sched=mlfq,promote=9"),
        "workers=7,pin,sched=mlfq,promote=9,quantum=1ms"
    );
    assert_eq!(variable("--model m:1", "workers=7"), "workers=1,sched=rr");
    // The trace of another run does not concern this one.
    assert_eq!(
        variable("--model m:1", "stack=32K,trace=/tmp/x,stack=64K"),
        "stack=32K,workers=1,sched=rr"
    );
}

#[test]
fn the_trace_goes_where_tek_reads_it() {
    let directory = tempfile::tempdir().unwrap();
    let recorder = Recorder::create(&directory.path().join("trace.json")).unwrap();
    let mut plan = plan(&args("--model m:1"), None).unwrap().unwrap();
    plan.record(&recorder);
    let expected = format!("workers=1,sched=rr,trace={}", recorder.raw_path().display());
    assert_eq!(plan.variable, *expected);
}

#[test]
fn an_option_of_another_model_is_refused_by_its_name() {
    let refused = |options: &str| planned(options, "").unwrap_err();
    assert!(refused("--workers 2").contains("--workers") && refused("--workers 2").contains("m:n"));
    assert!(refused("--model m:1 --workers 2").starts_with("--workers is for --model m:n"));
    for option in [
        "--sched rr",
        "--quantum 5ms",
        "--preempt off",
        "--promote 3",
        "--pin",
        "--pool 3",
        "--trace x",
        "--stack 64K",
    ] {
        let printed = refused(option);
        assert!(printed.starts_with(option.split(' ').next().unwrap()), "{printed}");
        assert!(printed.contains("--model m:1"), "{printed}");
    }
}

#[test]
fn what_only_fifo_has_is_refused_with_other_schedulers() {
    for option in ["--pool 5", "--engine-lock giant"] {
        assert!(planned(&format!("--model m:1 {option}"), "").is_err());
        assert!(planned(&format!("--model m:1 --sched rr {option}"), "").is_err());
        assert!(planned(&format!("--model m:1 --sched fifo {option}"), "").is_ok());
        assert!(planned(&format!("--model m:1 {option}"), "sched=fifo").is_ok());
    }
}

#[test]
fn what_needs_libtek_is_refused_by_its_name() {
    let options = [
        "--critical ui*",
        "--rules x.toml",
        "--budget off",
        "--rt-range 1-9",
        "--no-follow-marked",
        "--no-inherit",
        "--report",
        "--report-json x",
        "--stack report",
        "--stack auto,grow",
        "--stack-margin 2 --stack 64K",
        "--stack-floor 16K --stack 64K",
        "--stack-zones 10%-90% --stack 64K",
        "--stack-profiles x --stack 64K",
    ];
    for option in options {
        let printed = planned(&format!("--model m:n {option}"), "").unwrap_err();
        assert!(printed.starts_with(option.split(' ').next().unwrap()), "{printed}");
        if !option.contains("--stack 64K") {
            assert_eq!(planned(option, ""), Ok(None));
        }
    }
    assert!(planned("--model m:1 --role a=b --stack auto,override", "").is_ok());
    assert!(planned("--model m:1 --arena-max 1 --group background --no-rules", "").is_ok());
}

#[test]
fn a_quantum_is_a_time_that_timers_can_keep() {
    for (text, shown) in
        [("50us", "50us"), ("5ms", "5ms"), ("1000us", "1ms"), ("10s", "10s"), ("1500us", "1500us")]
    {
        assert_eq!(text.parse::<Quantum>().unwrap().to_string(), shown);
    }
    for bad in
        ["", "5", "49us", "11s", "5 ms", "-5ms", "1.5ms", "5m", "ms", "99999999999999999999s"]
    {
        assert!(bad.parse::<Quantum>().is_err(), "{bad:?} was taken");
    }
}

#[test]
fn an_unknown_scheduler_is_refused_with_a_list_of_the_known_ones() {
    let words = ["--model", "m:1", "--sched", "lottery", "true"];
    let printed = tried::<Args>(words).err().unwrap().to_string();
    assert!(printed.contains("'lottery'"), "{printed}");
    assert!(printed.contains("rr, mlfq, psjf, fifo, steal"), "{printed}");
}

proptest! {
    #[test]
    fn the_options_come_through_whatever_is_in_the_environment(text in "[a-z=,0-9]{0,40}") {
        let plan = plan(&args("--model m:n --workers 3 --sched rr"), Some(OsStr::new(&text)));
        let variable = plan.unwrap().unwrap().variable.into_string().unwrap();
        prop_assert!(variable.ends_with("workers=3,sched=rr"), "{}", variable);
    }
}
