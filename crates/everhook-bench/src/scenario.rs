//! The list of scenarios, and the loop that runs the selected ones.

mod drain;
mod flat;
mod isolation;
mod jobs;
mod latency;
mod limited;
mod outbox;
mod pages;
mod pinned;
mod rate;
mod replicas;
mod retention;
mod scrape;
mod start;
mod throughput;

use anyhow::bail;

use crate::Arguments;
use crate::bench::Bench;
use crate::report::{Report, Row};

pub(crate) const NAMES: [&str; 16] = [
    "one",
    "five",
    "outbox",
    "jobs",
    "latency",
    "rate",
    "flat",
    "drain",
    "isolation",
    "limited",
    "pinned",
    "scrape",
    "pages",
    "retention",
    "replicas",
    "start",
];

/// Runs the selected scenarios on every available store.
pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<Report> {
    if let Some(unknown) = arguments.names.iter().find(|name| !NAMES.contains(&name.as_str())) {
        bail!("there is no scenario {unknown:?}; the scenarios are {}", NAMES.join(", "));
    }
    let mut stores = vec![("sqlite", None)];
    if let Some(url) = &arguments.database {
        stores.push(("postgres", Some(url.as_str())));
    }
    stores.retain(|(store, _)| arguments.store.as_ref().is_none_or(|wanted| wanted == store));
    let mut report = Report::default();
    for name in NAMES {
        if arguments.names.is_empty() || arguments.names.iter().any(|wanted| wanted == name) {
            for (store, database) in &stores {
                let bench = Bench { arguments, store, database: *database };
                report.rows.extend(run_one(name, &bench).await?);
            }
        }
    }
    Ok(report)
}

async fn run_one(name: &str, bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    match name {
        "one" => throughput::one(bench).await,
        "five" => throughput::five(bench).await,
        "outbox" => outbox::run(bench).await,
        "jobs" => jobs::run(bench).await,
        "latency" => latency::run(bench).await,
        "rate" => rate::run(bench).await,
        "flat" => flat::run(bench).await,
        "drain" => drain::run(bench).await,
        "isolation" => isolation::run(bench).await,
        "limited" => limited::run(bench).await,
        "pinned" => pinned::run(bench).await,
        "scrape" => scrape::run(bench).await,
        "pages" => pages::run(bench).await,
        "retention" => retention::run(bench).await,
        "replicas" => replicas::run(bench).await,
        "start" => start::run(bench).await,
        _ => bail!("there is no scenario {name:?}"),
    }
}
