//! The reference of metrics `docs/metrics.md`, made from a page on which every metric appears.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use everhook_api::{ConnectionMetrics, HttpMetrics};
use everhook_engine::metrics;

use crate::{logging, process};

const HEAD: &str = "# Metrics

`/metrics` serves these metrics in the format of Prometheus. The route needs an admin key; the [separate
port](high-availability.md#separate-port-for-health-and-metrics) needs none. Each node reports its own numbers, and
Prometheus adds them up. A scrape runs no query: the store is sampled every 15 s, and its queues every 60 s. Labels
never name an environment, an application or an endpoint; [the overview](overview.md) does. Queues of the same name in
several environments are one series. `everhook metrics-reference` prints this page.

Counters end in `_total`. Histograms have the series `_bucket`, `_sum` and `_count`. [Alert rules and a
dashboard](installing.md) use these metrics, and the [run book](run-book.md) explains the alerts.

| metric | type | labels | meaning |
|---|---|---|---|
";

/// A metric as the page describes it.
#[derive(Default)]
struct Entry {
    kind: String,
    help: String,
    labels: BTreeSet<String>,
}

/// Returns the page as Markdown.
pub(crate) fn page() -> String {
    let text = metrics::example_page(|registry| {
        logging::Counters::default().register(registry);
        ConnectionMetrics::default().register(registry);
        HttpMetrics::default().with_example().register(registry);
        process::register(registry, "1.2.3");
    });
    let mut page = HEAD.to_owned();
    for (name, Entry { kind, help, labels }) in entries(&text) {
        let suffix = if kind == "counter" { "_total" } else { "" };
        let labels = labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ");
        let _ = writeln!(page, "| `{name}{suffix}` | {kind} | {labels} | {} |", help.trim_end_matches('.'));
    }
    page
}

fn entries(text: &str) -> BTreeMap<&str, Entry> {
    let mut entries: BTreeMap<&str, Entry> = BTreeMap::new();
    let mut current = "";
    for line in text.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("HELP"), Some(name), help) => {
                current = name;
                help.unwrap_or_default().clone_into(&mut entries.entry(name).or_default().help);
            }
            (Some("#"), Some("TYPE"), Some(name), Some(kind)) => {
                kind.clone_into(&mut entries.entry(name).or_default().kind)
            }
            _ => {
                let labels = line.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(labels, _)| labels);
                let names =
                    labels.into_iter().flat_map(|labels| labels.split(',')).filter_map(|pair| pair.split_once('='));
                let names = names.map(|(name, _)| name.to_owned()).filter(|name| name != "le");
                if !line.starts_with('#') {
                    entries.entry(current).or_default().labels.extend(names);
                }
            }
        }
    }
    entries.remove("");
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_of_metrics_is_current() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
        let committed = std::fs::read_to_string(file).unwrap_or_default();
        let remedy = "run `cargo run -- metrics-reference > docs/metrics.md` and commit it";
        assert!(committed == page(), "docs/metrics.md differs from the metrics: {remedy}");
    }

    #[test]
    fn labels_are_bounded() {
        let text = page();
        for unbounded in ["environment", "application", "endpoint", "`queue`", "tenant"] {
            let table = text.split("|---|").nth(1).unwrap_or_default();
            let labels = table.lines().filter_map(|line| line.split('|').nth(3));
            assert!(labels.into_iter().all(|labels| !labels.contains(unbounded)), "{unbounded}");
        }
    }
}
