// SPDX-License-Identifier: MIT OR Apache-2.0
//! The responses of a run as a bar chart.

use super::summary::Summaries;
use super::variant::Variant;
use crate::host::Host;
use crate::svg::{bar_chart, Bar, Chart};

/// The SVG document: a bar for the mean of each variant, a line to its p99.
pub fn svg(summaries: &Summaries, hogs: usize, host: &Host) -> String {
    let bars: Vec<Bar> = SHOWN
        .iter()
        .filter_map(|(variant, label)| {
            let response = &summaries.get(variant)?.response_ms;
            Some(Bar {
                label: (*label).to_owned(),
                value: response.mean,
                greatest: response.p99,
                text: format!("{:.1} ms", response.mean),
                marked: variant.is_tek(),
            })
        })
        .collect();
    let caption =
        format!("Bar: mean, line: 99th percentile. {hogs} CPU-bound threads.\n{}", host.caption());
    let title = "Answer time of a touch that takes 20 ms of CPU time";
    bar_chart(&Chart { title, caption: &caption, bars: &bars })
}

/// Alone-2 only shows the noise of alone, so it is left out.
const SHOWN: [(Variant, &str); 7] = [
    (Variant::Conventional, "stock Linux"),
    (Variant::HogsIdle, "load at SCHED_IDLE"),
    (Variant::Nice, "nice -20"),
    (Variant::ChrtRr, "chrt -r"),
    (Variant::TekName, "TEK, program unchanged"),
    (Variant::TekApi, "TEK, by its API"),
    (Variant::Alone, "alone on the device"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::tests::host;
    use crate::response::{fixture::session, summary::summarize};

    #[test]
    fn each_variant_that_ran_has_a_bar_with_its_mean() {
        let svg = svg(&summarize(&session()), 20, &host());
        assert_eq!(svg.matches("<rect class=\"bar").count(), 3);
        let at = |text: &str| svg.find(text).unwrap_or_else(|| panic!("{text} in {svg}"));
        assert!(at("stock Linux") < at("206.7 ms"));
        assert!(at("206.7 ms") < at("TEK, program unchanged"));
        assert!(at("TEK, program unchanged") < at("alone on the device"));
    }

    #[test]
    fn the_caption_names_the_machine() {
        let svg = svg(&summarize(&session()), 20, &host());
        assert!(svg.contains(">2 CPUs of Model &lt;1&gt;, Linux 6.18.1.</text>"), "{svg}");
    }
}
