//! Measures the maximum rate of accepting, delivering and settling, with 128 clients and one or five endpoints.

use crate::bench::{Bench, explain, prepare};
use crate::receiver::{Plan, Receiver};
use crate::report::{Row, Runs};

pub(super) async fn one(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    let target = if bench.database.is_some() { ">= 10 % of raw" } else { ">= 14 % of raw" };
    throughput(bench, "1 endpoint", target, Plan::of(bench.scaled(20_000), 1)).await
}

pub(super) async fn five(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    let target = if bench.database.is_some() { ">= 18 % of raw" } else { ">= 25 % of raw" };
    throughput(bench, "5 endpoints", target, Plan::of(bench.scaled(4_000), 5)).await
}

async fn throughput(
    bench: &Bench<'_>,
    name: &'static str,
    target: &'static str,
    plan: Plan,
) -> anyhow::Result<Vec<Row>> {
    let mut runs = Runs::default();
    for _ in bench.runs(name) {
        let limit = bench.raw_rate().await?;
        let place = bench.place().await?;
        let server = place.start().await?;
        let receiver = Receiver::start(plan).await?;
        prepare(&server, "bench", &receiver).await?;
        let ran = bench.closed_loop(&[&server], "bench", &receiver).await?;
        runs.push(ran.rate, limit);
        runs.cost(&ran);
        explain(&server).await?;
        server.stop().await?;
        place.remove().await?;
    }
    Ok(vec![runs.row(name, bench.store, "/s", target)])
}
