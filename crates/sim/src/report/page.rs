//! The page: one file for any browser, with nothing to load.
//!
//! The colours are those of the talk whose incident the model is of (G. Polevoy, "Asynchronous
//! scenario", DotNext 2018): arrivals blue, answers green, timeouts yellow, concurrency grey. One
//! row for each kind of chart, one column for each configuration, one scale for the whole row.

use std::collections::BTreeSet;
use std::fmt::Write;

use spillgate_core::gate::{Class, Reason};
use spillgate_core::time::Duration;

use crate::summary::{Point, PoolSummary, Summary};

use super::chart::{Chart, Curve, axis_end};
use super::table::Rows;
use super::{count, reason};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// A row of charts: its title, what it shows, and the chart of one pool.
type Row<'r> = (&'r str, &'r str, Box<dyn Fn(&PoolSummary) -> Chart + 'r>);

/// The page of these summaries, side by side.
pub fn page(summaries: &[Summary]) -> String {
    let mut page = String::new();
    let title = summaries.first().map_or(String::new(), |first| escape(&first.name));
    put(&mut page, "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n");
    put(&mut page, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    put(&mut page, &format!("<title>{title} – Spillgate simulation</title>\n"));
    put(&mut page, &format!("<style>\n{STYLE}</style>\n<main>\n"));
    if let Some(first) = summaries.first() {
        let arrivals = count(first.arrivals());
        put(&mut page, &format!("<h1>{title}</h1>\n<p class=\"under\">Simulated by Spillgate "));
        let noun = if first.arrivals() == 1 { "exchange" } else { "exchanges" };
        put(&mut page, &format!("with seed {}; {arrivals} {noun}", first.seed));
        put(&mut page, if summaries.len() > 1 { " in each column.</p>\n" } else { ".</p>\n" });
        write_table(&mut page, summaries);
        write_rows(&mut page, summaries);
    }
    put(&mut page, &format!("</main>\n<script>\n{SCRIPT}</script>\n</html>\n"));
    page
}

fn write_table(page: &mut String, summaries: &[Summary]) {
    put(page, "<div class=\"scroll\"><table>\n");
    for (name, values) in Rows::of(summaries).lines() {
        let tag = if name.is_empty() { "th" } else { "td" };
        let class = if name.starts_with(' ') { " class=\"part\"" } else { "" };
        put(page, &format!("<tr{class}><th scope=\"row\">{}</th>", escape(name.trim())));
        for value in values {
            let (number, share) = match value.strip_suffix('%') {
                Some(_) => value.split_once(' ').map_or((value.as_str(), ""), |_| {
                    let at = value.trim_end_matches(" %").rfind(' ').unwrap_or(0);
                    value.split_at(at)
                }),
                None => (value.as_str(), ""),
            };
            let (number, share) = (escape(number.trim()), escape(share.trim()));
            let share = if share.is_empty() { share } else { format!(" <small>{share}</small>") };
            put(page, &format!("<{tag}>{number}{share}</{tag}>"));
        }
        put(page, "</tr>\n");
    }
    put(page, "</table></div>\n");
}

fn write_rows(page: &mut String, summaries: &[Summary]) {
    let pools = summaries[0].pools.len();
    for pool in 0..pools {
        if pools > 1 {
            let name = escape(&summaries[0].pools[pool].name);
            put(page, &format!("<h2>Pool {name}</h2>\n"));
        }
        let end = summaries.iter().map(|summary| end_of(&summary.pools[pool])).max();
        let end = end.unwrap_or_default();
        for (title, text, chart) in rows(summaries, pool) {
            let mut charts: Vec<_> =
                summaries.iter().map(|summary| chart(&summary.pools[pool])).collect();
            let largest = charts.iter().map(Chart::largest).fold(0.0, f64::max);
            if largest == 0.0 && charts[0].stacked {
                continue;
            }
            let top = axis_end(largest);
            charts.iter_mut().for_each(|chart| (chart.top, chart.end) = (top, end));
            write_row(page, title, text, (summaries, &charts));
        }
    }
}

fn rows(summaries: &[Summary], pool: usize) -> Vec<Row<'_>> {
    let reasons: BTreeSet<_> = summaries
        .iter()
        .flat_map(|summary| &summary.pools[pool].series.points)
        .flat_map(|point| point.shed.keys().copied())
        .collect();
    let mut rows: Vec<Row<'_>> = vec![
        (
            "Requests a second",
            "What came and what became of it.",
            Box::new(|pool| {
                chart(
                    pool,
                    "/s",
                    vec![
                        per_second(pool, "arrivals", |point| point.arrivals),
                        per_second(pool, "answers in time", |point| point.served),
                        per_second(pool, "clients gave up", |point| point.timeouts),
                        per_second(pool, "turned away", Point::shed_total),
                    ],
                )
            }),
        ),
        (
            "Exchanges at once",
            "Waiting and in workers, with the work for clients that have left.",
            Box::new(|pool| {
                let values = points(pool).map(|point| f64::from(point.concurrency)).collect();
                let mut curve = curve("at once", values);
                curve.area = true;
                chart(pool, "", vec![curve])
            }),
        ),
        (
            "Seconds to the answer",
            "Half of the answers, and ninety-nine in a hundred, took no longer.",
            Box::new(|pool| {
                let p50 = points(pool).map(|point| point.p50.as_secs_f64()).collect();
                let p99 = points(pool).map(|point| point.p99.as_secs_f64()).collect();
                chart(pool, " s", vec![curve("p99", p99), curve("p50", p50)])
            }),
        ),
        (
            "Turned away a second, by reason",
            "Stacked.",
            Box::new(move |pool| {
                let one = |(index, one): (usize, &Reason)| {
                    let of = |point: &Point| point.shed.get(one).copied().unwrap_or(0);
                    let mut curve = per_second(pool, &reason(*one), of);
                    curve.class = format!("reason{}", index % 6);
                    curve
                };
                let curves = reasons.iter().enumerate().map(one).collect();
                Chart { stacked: true, ..chart(pool, "/s", curves) }
            }),
        ),
    ];
    rows.extend(rows_by_class(summaries));
    rows
}

/// What becomes of each class, where there are several.
fn rows_by_class<'r>(summaries: &[Summary]) -> Vec<Row<'r>> {
    let classes: BTreeSet<_> = summaries[0].groups.iter().map(|group| group.class).collect();
    if classes.len() < 2 {
        return Vec::new();
    }
    vec![
        (
            "Answers in time a second, by class",
            "Stacked.",
            Box::new(|pool| by_class(pool, |point| &point.served_by_class)),
        ),
        (
            "Turned away a second, by class",
            "Stacked.",
            Box::new(|pool| by_class(pool, |point| &point.shed_by_class)),
        ),
    ]
}

fn by_class(pool: &PoolSummary, counts: fn(&Point) -> &[u64; Class::COUNT]) -> Chart {
    let curve = |class: Class| {
        let number = usize::from(class.number());
        let mut curve = per_second(pool, class.name(), |point| counts(point)[number]);
        curve.class = format!("class{number}");
        curve
    };
    let curves = Class::ALL.into_iter().map(curve).collect();
    Chart { stacked: true, ..chart(pool, "/s", curves) }
}

fn write_row(
    page: &mut String,
    title: &str,
    text: &str,
    (summaries, charts): (&[Summary], &[Chart]),
) {
    put(page, &format!("<section>\n<h3>{title}</h3>\n<p class=\"under\">{text}</p>\n"));
    put(page, "<p class=\"legend\">");
    for curve in &charts[0].curves {
        put(page, &format!("<span class=\"{}\">{}</span>", curve.class, escape(&curve.name)));
    }
    put(page, "</p>\n<div class=\"charts\">\n");
    for (summary, chart) in summaries.iter().zip(charts) {
        let name = escape(&summary.configuration);
        put(page, &format!("<figure data-step=\"{}\" ", chart.step.as_secs_f64()));
        put(page, &format!("data-end=\"{}\" ", chart.end.as_secs_f64()));
        put(page, &format!("data-unit=\"{}\">\n<figcaption>{name}", chart.unit));
        put(page, "<output></output></figcaption>\n");
        chart.write(page, &format!("{title}, {name}"));
        for curve in &chart.curves {
            let values: Vec<_> = curve.values.iter().map(|value| digits(*value)).collect();
            put(page, &format!("<data hidden value=\"{}\" ", values.join(" ")));
            put(page, &format!("data-name=\"{}\"></data>\n", escape(&curve.name)));
        }
        put(page, "</figure>\n");
    }
    put(page, "</div>\n</section>\n");
}

/// Where the charts of a pool end: with the last thing that happened in it.
fn end_of(pool: &PoolSummary) -> Duration {
    pool.series.length * pool.series.points.len() as u32
}

fn points(pool: &PoolSummary) -> impl Iterator<Item = &Point> {
    pool.series.points.iter()
}

fn chart(pool: &PoolSummary, unit: &'static str, curves: Vec<Curve>) -> Chart {
    let (step, end) = (pool.series.length, end_of(pool));
    Chart { step, end, top: 0.0, unit, curves, stacked: false }
}

fn curve(name: &str, values: Vec<f64>) -> Curve {
    let class = name.replace(' ', "-");
    Curve { name: name.to_owned(), class, values, area: false }
}

fn per_second(pool: &PoolSummary, name: &str, number: impl Fn(&Point) -> u64) -> Curve {
    let seconds = pool.series.length.as_secs_f64();
    curve(name, points(pool).map(|point| number(point) as f64 / seconds).collect())
}

/// Four digits that count: what a reader of a chart can use.
fn digits(value: f64) -> String {
    let digits = match value {
        ..10.0 => format!("{value:.3}"),
        ..100.0 => format!("{value:.2}"),
        ..1000.0 => format!("{value:.1}"),
        _ => return format!("{value:.0}"),
    };
    digits.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            letter => escaped.push(letter),
        }
    }
    escaped
}

fn put(page: &mut String, text: &str) {
    page.write_str(text).expect("a string takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_become_markup() {
        let name = "<script>alert(1)</script>".to_owned();
        let pools = vec![PoolSummary { name: name.clone(), ..PoolSummary::default() }];
        let one = Summary { name: name.clone(), configuration: name, pools, ..Summary::default() };
        let page = page(&[one.clone(), one]);
        assert!(!page.contains("<script>alert"), "{page}");
        assert!(page.contains("&lt;script&gt;alert"));
    }

    #[test]
    fn the_page_loads_nothing() {
        let page = page(&[Summary::default()]);
        assert!(!page.contains("http:") && !page.contains("https:") && !page.contains("src="));
    }
}
