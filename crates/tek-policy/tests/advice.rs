// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages with an example of a value: the example, in the place of the wrong value, is taken.
use std::str::FromStr;
use tek_policy::{parse, read_configuration, Margin, Percent, StackSize, StackZones};

/// The example behind `as in`, up to the comma that ends it or to the end of the line.
fn example(message: &str) -> &str {
    let (_, rest) = message.split_once("as in ").unwrap_or_else(|| panic!("{message}"));
    let rest = rest.lines().next().unwrap_or_default();
    let end = match rest.starts_with('[') {
        true => rest.find(']').map(|at| at + 1),
        false => rest.find(',').or_else(|| rest.find(" or ")),
    };
    &rest[..end.unwrap_or(rest.len())]
}

fn follow<T, E: ToString>(read: impl Fn(&str) -> Result<T, E>, form: &str, wrong: &str) {
    let text = form.replace("{}", wrong);
    let Err(error) = read(&text) else { panic!("{text} is taken") };
    let message = error.to_string();
    let mut advised = example(&message).to_owned();
    if form.contains("\"{}\"") {
        advised = advised.trim_matches('"').to_owned();
    }
    let text = form.replace("{}", &advised);
    assert!(read(&text).is_ok(), "{message}\n{text}");
}

#[test]
fn an_example_of_a_rule_is_taken() {
    let read = |text: &str| parse(text, "fridge.toml");
    for (form, wrong) in [
        ("[[rule]]\n{}\nset = { critical = true }", "match = {}"),
        ("[[rule]]\nmatch = { thread = \"ui\" }\n{}", "set = {}"),
        ("[[rule]]\nmatch = { thread = \"{}\" }\nset = { critical = true }", ""),
    ] {
        follow(read, form, wrong);
    }
}

#[test]
fn an_example_of_a_setting_of_tekd_is_taken() {
    let read = |text: &str| read_configuration(text, "tekd.toml");
    for (form, wrong) in [
        ("real_time = {}", "[49, 10]"),
        ("[[grant]]\nusers = [7]\npriorities = {}", "[19, -20]"),
        ("[[grant]]\nprograms = [\"{}\"]", ""),
        ("[kthreads.functions]\n{}", "\"wb workfn\" = 1.2"),
    ] {
        follow(read, form, wrong);
    }
}

#[test]
fn an_example_of_a_setting_of_the_stack_tuner_is_taken() {
    fn value<T: FromStr>(wrong: &str)
    where
        T::Err: ToString,
    {
        follow(T::from_str, "{}", wrong);
    }
    value::<Percent>("101%");
    value::<Margin>("0.5");
    value::<StackSize>("2G");
    value::<StackZones>("80%-25%");
}
