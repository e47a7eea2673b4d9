// SPDX-License-Identifier: MIT OR Apache-2.0
//! Charts for terminals: as wide as the terminal, and plain ASCII without UTF-8.

/// The capabilities of the terminal.
#[derive(Clone, Copy)]
pub struct Terminal {
    pub width: usize,
    pub unicode: bool,
}

impl Terminal {
    /// The terminal of standard output; 80 columns if it is none.
    pub fn of_stdout() -> Terminal {
        let width =
            console::Term::stdout().size_checked().map_or(80, |(_, columns)| usize::from(columns));
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .iter()
            .filter_map(|name| std::env::var(name).ok())
            .find(|value| !value.is_empty());
        Terminal {
            width: width.clamp(40, 160),
            unicode: locale.is_some_and(|name| speaks_utf8(&name)),
        }
    }
}

fn speaks_utf8(locale: &str) -> bool {
    let locale = locale.to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

const EIGHTHS_WIDE: [char; 9] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];
const EIGHTHS_HIGH: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A labelled value of a bar chart.
pub struct Bar {
    pub label: String,
    pub value: f64,
    pub text: String,
}

/// Horizontal bars, one a line, the longest as wide as there is room.
pub fn bar_chart(bars: &[Bar], terminal: Terminal) -> String {
    let length = |text: &str| text.chars().count();
    let label_width = bars.iter().map(|bar| length(&bar.label)).max().unwrap_or(0);
    let text_width = bars.iter().map(|bar| length(&bar.text)).max().unwrap_or(0);
    let room = terminal.width.saturating_sub(label_width + text_width + 5).max(8);
    let greatest = bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
    bars.iter()
        .map(|bar| {
            let share = if greatest > 0.0 { bar.value / greatest } else { 0.0 };
            let drawn = horizontal(share, room, terminal.unicode);
            format!("  {:<label_width$}  {drawn} {}\n", bar.label, bar.text)
        })
        .collect()
}

fn horizontal(share: f64, room: usize, unicode: bool) -> String {
    if !unicode {
        // At least one, so that a short bar is seen.
        return "#".repeat(((share * room as f64).round() as usize).clamp(1, room));
    }
    let eighths = ((share * room as f64 * 8.0).round() as usize).clamp(1, room * 8);
    let bar = format!("{}{}", "█".repeat(eighths / 8), EIGHTHS_WIDE[eighths % 8]);
    bar.trim_end().to_owned()
}

/// The content of a chart over time; times in s.
pub struct TimeChart<'a> {
    /// (time, value): each column shows the greatest value of its time.
    pub points: &'a [(f64, f64)],
    /// The time at the right edge.
    pub end: f64,
    /// The value of a full column.
    pub greatest: f64,
    pub unit: &'static str,
    /// The parts of the time axis that are drawn double.
    pub marked: &'a [(f64, f64)],
}

/// Draws a chart over time, this many lines high.
pub fn time_chart(chart: &TimeChart, lines: usize, terminal: Terminal) -> String {
    let columns = terminal.width.saturating_sub(14).max(20);
    let column_of = |time: f64| ((time / chart.end * columns as f64) as usize).min(columns - 1);
    let mut heights = vec![0.0f64; columns];
    for (time, value) in chart.points {
        let height = &mut heights[column_of(*time)];
        *height = height.max(*value);
    }
    let mut text = String::new();
    for line in (0..lines).rev() {
        let label = if line == lines - 1 {
            format!("{:.1} {}", chart.greatest, chart.unit)
        } else {
            String::new()
        };
        let cells: String = heights
            .iter()
            .map(|height| cell(height / chart.greatest * lines as f64 - line as f64, terminal))
            .collect();
        text.push_str(&format!("{label:>10} |{}\n", cells.trim_end()));
    }
    let is_marked = |column: &usize| {
        let within = |(from, to): &(f64, f64)| (column_of(*from)..=column_of(*to)).contains(column);
        chart.marked.iter().any(within)
    };
    let axis: String =
        (0..columns).map(|column| if is_marked(&column) { '=' } else { '-' }).collect();
    text.push_str(&format!("{:>10} +{axis}\n", format!("0 {}", chart.unit)));
    text
}

/// One character of a column that reaches `filled` of its height (1: all of it).
fn cell(filled: f64, terminal: Terminal) -> char {
    let filled = filled.clamp(0.0, 1.0);
    if terminal.unicode {
        EIGHTHS_HIGH[(filled * 8.0).round() as usize]
    } else if filled >= 0.5 {
        '#'
    } else if filled > 0.0 {
        '.'
    } else {
        ' '
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASCII: Terminal = Terminal { width: 40, unicode: false };
    const UNICODE: Terminal = Terminal { width: 40, unicode: true };

    fn bars() -> Vec<Bar> {
        vec![
            Bar { label: "conventional".into(), value: 200.0, text: "200 ms".into() },
            Bar { label: "TEK".into(), value: 20.0, text: "20 ms".into() },
        ]
    }

    #[test]
    fn bars_are_in_proportion_and_fit_the_terminal() {
        assert_eq!(
            bar_chart(&bars(), ASCII),
            "  conventional  ################# 200 ms\n  TEK           ## 20 ms\n"
        );
        for line in bar_chart(&bars(), UNICODE).lines() {
            assert!(line.chars().count() <= 40, "{line}");
        }
    }

    #[test]
    fn ascii_terminals_get_ascii_only() {
        let over_time = TimeChart {
            points: &[(0.0, 1.0), (1.0, 30.0)],
            end: 2.0,
            greatest: 30.0,
            unit: "ms",
            marked: &[(0.5, 1.5)],
        };
        let chart = bar_chart(&bars(), ASCII) + &time_chart(&over_time, 4, ASCII);
        assert!(chart.is_ascii());
    }

    #[test]
    fn the_greatest_value_fills_its_column() {
        let chart = TimeChart {
            points: &[(0.0, 30.0)],
            end: 1.0,
            greatest: 30.0,
            unit: "ms",
            marked: &[(0.5, 1.0)],
        };
        let chart = time_chart(&chart, 3, UNICODE);
        assert!(chart.ends_with("-----=============\n"), "{chart}");
        let columns: Vec<char> =
            chart.lines().take(3).map(|line| line.chars().nth(12).unwrap()).collect();
        assert_eq!(columns, ['█', '█', '█']);
    }

    #[test]
    fn a_chart_of_zeros_is_drawn_too() {
        let nothing = [Bar { label: "a".into(), value: 0.0, text: "0".into() }];
        assert_eq!(bar_chart(&nothing, ASCII), "  a  # 0\n");
    }

    #[test]
    fn the_locale_decides() {
        assert!(speaks_utf8("de_DE.UTF-8") && speaks_utf8("C.utf8"));
        assert!(!speaks_utf8("C") && !speaks_utf8("de_DE@euro"));
    }
}
