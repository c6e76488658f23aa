//! Measures the time from starting the binary to the first accepted message, the resources of an idle server, and the
//! size of the binary.

use std::time::{Duration, Instant};

use crate::bench::{Bench, prepare};
use crate::load::{Client, Load};
use crate::receiver::{Plan, Receiver};
use crate::report::{Row, Runs};

/// The time after which a server without work is considered idle.
const SETTLE_DOWN: Duration = Duration::from_secs(1);
const START_MS_MAX: f64 = 300.0;
const IDLE_MIB_MAX: f64 = 60.0;
const BINARY_MIB_MAX: f64 = 40.0;

pub(super) async fn run(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    let (mut start, mut idle, mut binary) = (Runs::default(), Runs::default(), Runs::default());
    for run in bench.runs("start") {
        let place = bench.place().await?;
        let receiver = Receiver::start(Plan::of(run, 1)).await?;
        let server = place.start().await?;
        prepare(&server, "bench", &receiver).await?;
        tokio::time::sleep(SETTLE_DOWN).await;
        idle.push(server.resident_mib(), IDLE_MIB_MAX);
        server.stop().await?;
        let started = Instant::now();
        let server = place.start().await?;
        let load = Load::messages(&server, "bench", 1, 1);
        Client::connect(&load.address).await?.send(&load, 0).await?;
        start.push(started.elapsed().as_secs_f64() * 1e3, START_MS_MAX);
        receiver.wait_for(1).await;
        server.stop().await?;
        place.remove().await?;
    }
    let bytes = std::fs::metadata(&bench.arguments.server)?.len();
    binary.push(bytes as f64 / 1024.0 / 1024.0, BINARY_MIB_MAX);
    Ok(vec![
        start.row("cold start", bench.store, "ms", "<= 300 ms"),
        idle.row("idle", bench.store, "MiB", "<= 60 MiB"),
        binary.row("binary", bench.store, "MiB", "<= 40 MiB"),
    ])
}
