//! Measures what observers cost under full load: ten list calls per second, and `/metrics` once per second.

use std::time::Duration;

use crate::bench::{Bench, Ran, explain, prepare};
use crate::process::Server;
use crate::receiver::{Plan, Receiver};
use crate::report::{Row, Runs};

const LIST_INTERVAL: Duration = Duration::from_millis(100);
const LISTS_PER_SCRAPE: u32 = 10;

pub(super) async fn run(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    let mut runs = Runs::default();
    for _ in bench.runs("scrape") {
        let alone = measure(bench, false).await?;
        let watched = measure(bench, true).await?;
        runs.push(watched.rate, alone.rate);
        runs.cost(&watched);
        runs.checked.add(alone.checked);
    }
    Ok(vec![runs.row("lists and scrapes", bench.store, "/s", ">= 95 %")])
}

async fn measure(bench: &Bench<'_>, watch: bool) -> anyhow::Result<Ran> {
    let place = bench.place().await?;
    let server = place.start().await?;
    let receiver = Receiver::start(Plan::of(bench.scaled(40_000), 1)).await?;
    prepare(&server, "bench", &receiver).await?;
    let servers = [&server];
    let ran = tokio::select! {
        ran = bench.closed_loop(&servers, "bench", &receiver) => ran?,
        Err(error) = look(&server), if watch => return Err(error),
    };
    explain(&server).await?;
    server.stop().await?;
    place.remove().await?;
    Ok(ran)
}

/// Lists and scrapes until it is dropped.
async fn look(server: &Server) -> anyhow::Result<std::convert::Infallible> {
    let mut interval = tokio::time::interval(LIST_INTERVAL);
    for round in 0_u32.. {
        interval.tick().await;
        server.get("/api/v1/app/bench/msg?limit=50").await?;
        server.get("/api/v1/app?limit=50").await?;
        if round % LISTS_PER_SCRAPE == 0 {
            server.metrics().await?;
        }
    }
    anyhow::bail!("the observer outlasted the run")
}
