//! Measures that a page deep in a list costs as much as the first one: page 1 and page 1,000 of the attempts of an
//! endpoint, of the deliveries and messages of an application, and of the messages of all applications.

use std::time::Instant;

use anyhow::Context;

use crate::bench::{Bench, prepare};
use crate::expired::Ages;
use crate::process::Server;
use crate::receiver::{Plan, Receiver};
use crate::report::{Row, Runs, percentile};

const ATTEMPTS: usize = 1_000_000;
/// Fewer attempts would not have a thousand pages.
const ATTEMPTS_MIN: usize = 2_000;
const PAGE: usize = 1_000;
const PAGE_ROWS_MAX: usize = 250;
/// Requests for each measured page; the median counts.
const REPEATS: usize = 51;

pub(super) async fn run(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    let names = ["attempts", "deliveries", "messages", "messages of all applications"];
    let mut lists = names.map(|name| (name, Runs::default()));
    for _ in bench.runs("pages") {
        let place = bench.place().await?;
        let server = place.start().await?;
        let receiver = Receiver::start(Plan::of(0, 1)).await?;
        prepare(&server, "bench", &receiver).await?;
        server.stop().await?;
        let filled = bench.scaled(ATTEMPTS).max(ATTEMPTS_MIN);
        Ages::of(&place)?.write_delivered(&place, filled).await?;
        let server = place.start().await?;
        let limit = (filled / PAGE - 1).clamp(1, PAGE_ROWS_MAX);
        let endpoint = text(&server, "/api/v1/app/bench/endpoint", "/data/0/id").await?;
        let attempts = format!("/api/v1/app/bench/attempt/endpoint/{endpoint}");
        let paths = [attempts.as_str(), "/api/v1/app/bench/delivery", "/api/v1/app/bench/msg", "/api/v1/message"];
        for ((name, runs), path) in lists.iter_mut().zip(paths) {
            let (first, deep) = measure(&server, path, limit).await?;
            runs.push(deep, first);
            runs.note = format!("{filled} {name}, {limit} per page");
        }
        server.stop().await?;
        place.remove().await?;
    }
    let row =
        |(name, runs): (&str, Runs)| runs.row(&format!("page 1000 of {name}"), bench.store, "ms", "<= 150 % of page 1");
    Ok(lists.into_iter().map(row).collect())
}

/// Returns the median times of page 1 and page 1,000 in milliseconds.
async fn measure(server: &Server, list: &str, limit: usize) -> anyhow::Result<(f64, f64)> {
    let first = format!("{list}?limit={limit}");
    let mut page = first.clone();
    for _ in 1..PAGE {
        page = format!("{first}&iterator={}", text(server, &page, "/iterator").await?);
    }
    text(server, &page, "/data/0").await.context("page 1,000 is empty")?;
    Ok((median(server, &first).await?, median(server, &page).await?))
}

async fn median(server: &Server, path: &str) -> anyhow::Result<f64> {
    let mut times = Vec::with_capacity(REPEATS);
    for _ in 0..REPEATS {
        let started = Instant::now();
        server.get(path).await?;
        times.push(u64::try_from(started.elapsed().as_nanos())?);
    }
    Ok(percentile(&mut times, 0.5) / 1e6)
}

/// Returns a member of an answer as text.
async fn text(server: &Server, path: &str, member: &str) -> anyhow::Result<String> {
    let answer: serde_json::Value = serde_json::from_str(&server.get(path).await?)?;
    let found = answer.pointer(member).filter(|found| !found.is_null());
    let found = found.with_context(|| format!("{path} has no {member}"))?;
    Ok(found.as_str().map_or_else(|| found.to_string(), str::to_owned))
}
