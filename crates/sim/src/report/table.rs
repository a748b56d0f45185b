//! The table: one line for each number, one column for each configuration.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::summary::{GroupSummary, Summary};

use super::{count, percent, reason, time};

/// Longest name that heads a column; the rest is cut.
const NAME_MAX: usize = 24;
/// The room of a share, where a line has none.
const SHARE: &str = "        ";

/// The summaries side by side, with a line of title above.
pub fn table(summaries: &[Summary]) -> String {
    let Some(first) = summaries.first() else { return String::new() };
    let mut text = format!("{} (seed {})\n", first.name, first.seed);
    Rows::of(summaries).write(&mut text);
    text
}

/// The lines of a table: a name, and a value of each summary.
pub(super) struct Rows<'s> {
    summaries: &'s [Summary],
    lines: Vec<(String, Vec<String>)>,
}

impl<'s> Rows<'s> {
    /// Everything that a table shows; there is at least one summary.
    pub(super) fn of(summaries: &'s [Summary]) -> Self {
        let mut rows = Rows { summaries, lines: Vec::new() };
        if summaries.iter().any(|summary| !summary.configuration.is_empty()) {
            rows.add("", |summary| summary.configuration.chars().take(NAME_MAX).collect());
        }
        rows.add_common();
        if summaries[0].groups.len() > 1 {
            (0..summaries[0].groups.len()).for_each(|index| rows.add_group(index));
        }
        rows.add_pools();
        rows
    }

    /// The lines. A name that is indented is a part of the one above.
    pub(super) fn lines(&self) -> &[(String, Vec<String>)] {
        &self.lines
    }

    fn add(&mut self, name: &str, value: impl Fn(&Summary) -> String) {
        let values = self.summaries.iter().map(value).collect();
        self.lines.push((name.to_owned(), values));
    }

    fn add_share(&mut self, name: &str, number: impl Fn(&Summary) -> u64) {
        self.add(name, |summary| {
            let (part, all) = (number(summary), summary.arrivals());
            format!("{} {:>7}", count(part), percent(part, all))
        });
    }

    /// A line only where there is something to see.
    fn add_share_if_any(&mut self, name: &str, number: impl Fn(&Summary) -> u64) {
        if self.summaries.iter().any(|summary| number(summary) > 0) {
            self.add_share(name, number);
        }
    }

    fn add_common(&mut self) {
        self.add("arrivals", |summary| count(summary.arrivals()));
        let again = |summary: &Summary| summary.total(|group| group.asked_again);
        self.add_share_if_any("  asked again", again);
        self.add_share("answered in time", Summary::served);
        self.add_share_if_any("answered too late", |summary| summary.total(|group| group.late));
        self.add_share("shed", Summary::shed);
        let all: BTreeSet<_> =
            self.summaries.iter().flat_map(|summary| summary.reasons().into_keys()).collect();
        for one in all {
            let name = format!("  {}", reason(one));
            self.add_share(&name, |summary| summary.reasons().get(&one).copied().unwrap_or(0));
        }
        self.add_share_if_any("failed", |summary| summary.total(|group| group.failed));
        self.add_share_if_any("abandoned", |summary| summary.total(|group| group.abandoned));
        self.add_share_if_any("clients gave up", |summary| summary.total(|group| group.timeouts));
        for (name, share) in
            [("time p50", 50), ("time p90", 90), ("time p99", 99), ("time max", 100)]
        {
            self.add(name, |summary| time(summary.time(share)));
        }
    }

    fn add_group(&mut self, index: usize) {
        let name = &self.summaries[0].groups[index].name;
        self.lines.push((format!("[{name}]"), Vec::new()));
        let of = |summary: &Summary| summary.groups.get(index).cloned().unwrap_or_default();
        let share = |part: fn(&GroupSummary) -> u64| {
            move |summary: &Summary| {
                let group = of(summary);
                format!("{} {:>7}", count(part(&group)), percent(part(&group), group.arrivals))
            }
        };
        self.add("  arrivals", |summary| count(of(summary).arrivals));
        self.add("  answered in time", share(|group| group.served));
        self.add("  shed", share(GroupSummary::shed_total));
        self.add("  time p99", |summary| time(of(summary).time(99)));
    }

    fn add_pools(&mut self) {
        let pools = self.summaries[0].pools.len();
        for index in 0..pools {
            let indent = if pools > 1 { "  " } else { "" };
            if pools > 1 {
                let name = &self.summaries[0].pools[index].name;
                self.lines.push((format!("pool {name}"), Vec::new()));
            }
            let at = |number: u32| count(u64::from(number));
            self.add(&format!("{indent}most in a worker"), |s| at(s.pools[index].inside_max));
            self.add(&format!("{indent}longest queue"), |s| at(s.pools[index].queue_len_max));
            self.add(&format!("{indent}most at once"), |s| at(s.pools[index].concurrency_max));
            if self.summaries.iter().any(|summary| summary.pools[index].retries > 0) {
                self.add(&format!("{indent}retries"), |s| count(s.pools[index].retries));
            }
        }
        for index in 0..self.summaries[0].databases.len() {
            let name = format!("most in {}", self.summaries[0].databases[index].0);
            self.add(&name, |summary| count(summary.databases[index].1 as u64));
        }
        self.add("ended after", |summary| time(summary.finished));
    }

    fn write(&self, text: &mut String) {
        let names = self.lines.iter().map(|(name, _)| name.chars().count());
        let name_width = names.max().unwrap_or_default();
        let column = |column: usize| {
            let values = self.lines.iter().filter_map(|(_, values)| values.get(column));
            let room = |value: &String| {
                let share = if value.ends_with('%') { "" } else { SHARE };
                value.chars().count() + share.len()
            };
            values.map(room).max().unwrap_or_default()
        };
        let widths: Vec<_> = (0..self.summaries.len()).map(column).collect();
        for (name, values) in &self.lines {
            let mut line = format!("{name:name_width$}");
            for (value, width) in values.iter().zip(widths.iter().copied()) {
                // Shares stand under shares, plain numbers under their counts.
                let share = if value.ends_with('%') { "" } else { SHARE };
                write!(line, "  {:>width$}", format!("{value}{share}")).expect("a string takes it");
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
    }
}
