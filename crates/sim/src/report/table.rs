//! The table: one line for each number, one column for each configuration.

use std::collections::BTreeSet;
use std::fmt::Write;

use spillgate_core::time::Duration;

use crate::summary::{GroupSummary, PathSummary, PhaseSummary, Summary, TenantSummary};

use super::{count, percent, reason, time};

/// Longest name that heads a column; the rest is cut.
const NAME_MAX: usize = 24;
/// Tenants that have a line of their own.
const TENANTS_MAX: usize = 12;
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
        rows.add_phases();
        rows.add_paths();
        rows.add_tenants();
        rows.add_pools();
        rows
    }

    /// The lines. A name that is indented is a part of the one above.
    pub(super) fn lines(&self) -> &[(String, Vec<String>)] {
        &self.lines
    }

    fn add(&mut self, name: &str, value: impl Fn(&'s Summary) -> String) {
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
        self.add_share_if_any("answered with 5xx", |summary| summary.total(|group| group.errors));
        self.add_share_if_any("abandoned", |summary| summary.total(|group| group.abandoned));
        self.add_share_if_any("clients gave up", |summary| summary.total(|group| group.timeouts));
        for (name, share) in
            [("time p50", 50), ("time p90", 90), ("time p99", 99), ("time max", 100)]
        {
            let hedges = |summary: &Summary| summary.pools.iter().any(|pool| pool.hedges > 0);
            if share == 100 && self.summaries.iter().any(hedges) {
                self.add("time p99.9", |summary| answer_time(summary.time_per_mille(999)));
            }
            self.add(name, |summary| answer_time(summary.time(share)));
        }
    }

    fn add_group(&mut self, index: usize) {
        let group = &self.summaries[0].groups[index];
        let classes: BTreeSet<_> = self.summaries[0].groups.iter().map(|one| one.class).collect();
        let class = match classes.len() {
            1 => String::new(),
            _ => format!(" class {} {}", group.class.number(), group.class.name()),
        };
        self.lines.push((format!("[{}]{class}", group.name), Vec::new()));
        self.add("  arrivals", |summary| count(at(summary, index).arrivals));
        self.add_part("  answered in time", index, |group| group.served);
        self.add_part("  shed", index, GroupSummary::shed_total);
        let groups = self.summaries.iter().map(|summary| at(summary, index));
        let reasons: BTreeSet<_> = groups.clone().flat_map(|group| group.shed.keys()).collect();
        let has_failed = groups.clone().any(|group| group.failed > 0);
        let has_errors = groups.clone().any(|group| group.errors > 0);
        for one in reasons {
            let of = |group: &GroupSummary| group.shed.get(one).copied().unwrap_or(0);
            self.add_part(&format!("    {}", reason(*one)), index, of);
        }
        if has_failed {
            self.add_part("  failed", index, |group| group.failed);
        }
        if has_errors {
            self.add_part("  answered with 5xx", index, |group| group.errors);
        }
        self.add("  time p50", |summary| answer_time(at(summary, index).time(50)));
        self.add("  time p99", |summary| answer_time(at(summary, index).time(99)));
    }

    /// A part of the arrivals of the group at `index`.
    fn add_part(&mut self, name: &str, index: usize, part: impl Fn(&GroupSummary) -> u64) {
        self.add(name, |summary| {
            let group = at(summary, index);
            format!("{} {:>7}", count(part(group)), percent(part(group), group.arrivals))
        });
    }

    /// What became of those who came between two steps of the load, a second.
    fn add_phases(&mut self) {
        for index in 0..self.summaries[0].phases.len() {
            let of = |summary: &'s Summary| &summary.phases[index];
            let rate = |number: u64, phase: &PhaseSummary| {
                format!("{:.0}/s", number as f64 / phase.length.as_secs_f64())
            };
            self.lines
                .push((format!("from {}", time(self.summaries[0].phases[index].from)), Vec::new()));
            self.add("  arrivals", |summary| rate(of(summary).arrivals, of(summary)));
            self.add("  answered in time", |summary| rate(of(summary).served, of(summary)));
            self.add("  time p50 of these", |summary| answer_time(of(summary).time(50)));
            self.add("  time p99 of these", |summary| answer_time(of(summary).time(99)));
        }
    }

    /// What became of what was asked for, path by path.
    fn add_paths(&mut self) {
        let several = |(_, own): &(usize, &GroupSummary)| own.paths.len() > 1;
        for (group, own) in self.summaries[0].groups.iter().enumerate().filter(several) {
            for (index, path) in own.paths.iter().enumerate() {
                let of = |summary: &'s Summary| &summary.groups[group].paths[index];
                self.lines.push((format!("{} of {}", path.path, own.name), Vec::new()));
                self.add("  answered in time", |summary| {
                    let PathSummary { arrivals, served, .. } = of(summary);
                    format!("{} {:>7}", count(*served), percent(*served, *arrivals))
                });
                self.add("  time p50", |summary| answer_time(of(summary).time(50)));
                self.add("  time p99", |summary| answer_time(of(summary).time(99)));
            }
        }
    }

    /// What each tenant got: how many were answered in time, and the part of those that it wanted.
    fn add_tenants(&mut self) {
        let tenants = &self.summaries[0].tenants;
        if tenants.is_empty() {
            return;
        }
        let shown = tenants.len().min(TENANTS_MAX);
        self.lines.push(("tenants, answered in time".to_owned(), Vec::new()));
        for (index, tenant) in tenants.iter().take(shown).enumerate() {
            self.add(&format!("  {}", tenant.name), |summary| {
                let TenantSummary { arrivals, served, .. } = summary.tenants[index];
                format!("{} {:>7}", count(served), percent(served, arrivals))
            });
        }
        self.add("  Jain index", |summary| summary.jain().map_or("–".to_owned(), digits));
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
            if self.summaries.iter().any(|summary| summary.pools[index].hedges > 0) {
                self.add_share(&format!("{indent}second tries"), |s| s.pools[index].hedges);
                self.add_share(&format!("{indent}  answered first"), |s| s.pools[index].hedges_won);
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

/// The group at `index`: all summaries are of the same clients.
fn at(summary: &Summary, index: usize) -> &GroupSummary {
    &summary.groups[index]
}

/// A time to the answer; a line where nobody was answered, which is told as zero.
fn answer_time(of: Duration) -> String {
    if of.is_zero() { "–".to_owned() } else { time(of) }
}

fn digits(index: f64) -> String {
    format!("{index:.4}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_never_answered_has_no_time() {
        let text = table(&[Summary::default()]);
        let line = text.lines().find(|line| line.starts_with("time p99")).expect("it is told");
        assert_eq!(line.split_whitespace().last(), Some("–"), "{text}");
        assert_eq!(answer_time(Duration::from_millis(2)), "2.00 ms");
    }
}
