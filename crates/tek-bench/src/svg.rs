// SPDX-License-Identifier: MIT OR Apache-2.0
//! A bar chart as SVG: one self-contained file for documents and browsers.

use std::fmt::Write;

const WIDTH: f64 = 760.0;
const LEFT: f64 = 230.0;
const RIGHT: f64 = 110.0;
const TOP: f64 = 56.0;
const ROW: f64 = 34.0;
const CAPTION_LINE: f64 = 18.0;

/// Colours that have contrast on a light and on a dark page.
const STYLE: &str =
    "text{font:14px sans-serif;fill:#24292f}.title{font-weight:bold;font-size:16px}\
.caption{font-size:12px;fill:#57606a}.bar{fill:#8c959f}.tek{fill:#1a7f37}.whisker{stroke:#24292f;\
stroke-width:1.5}.page{fill:#ffffff}";

/// One bar.
pub struct Bar {
    pub label: String,
    /// Length of the bar.
    pub value: f64,
    /// End of the thin line from the bar; none if it is not above the value.
    pub greatest: f64,
    pub text: String,
    /// Draws the bar in the second colour.
    pub marked: bool,
}

/// A chart of horizontal bars.
pub struct Chart<'a> {
    pub title: &'a str,
    /// Stands below the bars, a line of the chart for each line.
    pub caption: &'a str,
    pub bars: &'a [Bar],
}

/// The SVG document of a chart. Negative and infinite values count as 0.
pub fn bar_chart(chart: &Chart) -> String {
    let below = TOP + ROW * chart.bars.len() as f64 + 10.0;
    let height = below + CAPTION_LINE * chart.caption.lines().count() as f64 + 14.0;
    let most = chart.bars.iter().flat_map(|bar| [length(bar.value), length(bar.greatest)]);
    let most = most.fold(0.0, f64::max);
    let x = |value: f64| {
        let share = if most > 0.0 { length(value) / most } else { 0.0 };
        LEFT + share * (WIDTH - LEFT - RIGHT)
    };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" role=\"img\" aria-label=\"{title}\">\n\
         <style>{STYLE}</style>\n\
         <rect class=\"page\" width=\"{WIDTH}\" height=\"{height}\" rx=\"6\"/>\n\
         <text class=\"title\" x=\"20\" y=\"32\">{title}</text>\n",
        title = escaped(chart.title),
    );
    for (row, bar) in chart.bars.iter().enumerate() {
        svg.push_str(&drawn(bar, TOP + ROW * row as f64, &x));
    }
    for (line, text) in chart.caption.lines().enumerate() {
        let y = below + CAPTION_LINE * (line + 1) as f64;
        let text = escaped(text);
        let _ = writeln!(svg, "<text class=\"caption\" x=\"20\" y=\"{y}\">{text}</text>");
    }
    svg.push_str("</svg>\n");
    svg
}

/// One bar with its label, its text and its line to the greatest value.
fn drawn(bar: &Bar, top: f64, x: &dyn Fn(f64) -> f64) -> String {
    let (middle, end) = (top + ROW / 2.0, x(bar.value));
    let class = if bar.marked { "bar tek" } else { "bar" };
    let mut svg = format!(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n\
         <rect class=\"{class}\" x=\"{LEFT}\" y=\"{}\" width=\"{:.1}\" height=\"20\" rx=\"2\"/>\n",
        LEFT - 12.0,
        middle + 5.0,
        escaped(&bar.label),
        middle - 10.0,
        (end - LEFT).max(1.0),
    );
    let mut text_at = end;
    if length(bar.greatest) > length(bar.value) {
        text_at = x(bar.greatest);
        let _ = writeln!(
            svg,
            "<path class=\"whisker\" d=\"M{end:.1} {middle}H{text_at:.1}m0 -5v10\"/>"
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{}\">{}</text>",
        text_at + 10.0,
        middle + 5.0,
        escaped(&bar.text)
    );
    svg
}

fn length(value: f64) -> f64 {
    if value.is_finite() {
        value.max(0.0)
    } else {
        0.0
    }
}

/// Text as XML takes it.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            character if character.is_control() => escaped.push(' '),
            character => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(label: &str, value: f64, greatest: f64) -> Bar {
        let text = format!("{value} ms");
        Bar { label: label.to_owned(), value, greatest, text, marked: label == "TEK" }
    }

    fn widths(svg: &str) -> Vec<f64> {
        let bars = svg.lines().filter(|line| line.starts_with("<rect class=\"bar"));
        let width = |line: &str| line.split(" width=\"").nth(1).unwrap().to_owned();
        bars.map(|line| width(line).split('"').next().unwrap().parse().unwrap()).collect()
    }

    #[test]
    fn bars_are_in_proportion_and_the_greatest_value_fits() {
        let bars = [bar("stock", 200.0, 200.0), bar("TEK", 20.0, 20.0)];
        let svg = bar_chart(&Chart { title: "t", caption: "c", bars: &bars });
        assert_eq!(widths(&svg), [420.0, 42.0]);
        assert_eq!(svg.matches("bar tek").count(), 1);
    }

    #[test]
    fn a_line_leads_to_a_greatest_value_above_the_bar_only() {
        let bars = [bar("stock", 100.0, 200.0), bar("TEK", 20.0, 20.0)];
        let svg = bar_chart(&Chart { title: "t", caption: "c", bars: &bars });
        assert_eq!(svg.matches("<path").count(), 1);
        assert_eq!(widths(&svg), [210.0, 42.0]);
    }

    #[test]
    fn text_cannot_end_an_element() {
        let bars = [bar("a<b>&\"c\u{1b}", 1.0, 1.0)];
        let svg = bar_chart(&Chart { title: "\"><script>", caption: "<", bars: &bars });
        assert!(svg.contains("a&lt;b&gt;&amp;&quot;c "), "{svg}");
        assert!(!svg.contains("<script>") && !svg.contains('\u{1b}'), "{svg}");
    }

    #[test]
    fn values_that_are_no_length_are_drawn_as_zero() {
        let bars = [bar("nan", f64::NAN, f64::INFINITY), bar("negative", -1.0, 0.0)];
        let svg = bar_chart(&Chart { title: "t", caption: "c", bars: &bars });
        assert_eq!(widths(&svg), [1.0, 1.0]);
    }
}
