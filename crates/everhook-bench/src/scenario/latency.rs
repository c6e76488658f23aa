//! Sends one message at a time, and measures the time until it is accepted and until it is received.

use std::time::Instant;

use crate::bench::{Bench, explain, prepare};
use crate::load::{Client, Load, nanos};
use crate::receiver::{Plan, Receiver};
use crate::report::{Row, Runs, percentile};

pub(super) async fn run(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    let (mut accepted, mut received) = (Runs::default(), Runs::default());
    for _ in bench.runs("latency") {
        let commit = bench.commit_us().await?;
        let place = bench.place().await?;
        let server = place.start().await?;
        let receiver = Receiver::start(Plan::of(bench.scaled(1_000), 1)).await?;
        prepare(&server, "bench", &receiver).await?;
        let (mut until_accepted, mut until_received) = one_by_one(&server, &receiver).await?;
        let accepted_us = percentile(&mut until_accepted, 0.5) / 1e3;
        accepted.push(accepted_us, commit);
        received.push(percentile(&mut until_received, 0.5) / 1e3, accepted_us);
        accepted.checked.add(receiver.check());
        explain(&server).await?;
        server.stop().await?;
        place.remove().await?;
    }
    received.checked = accepted.checked;
    Ok(vec![
        accepted.row("accepted p50", bench.store, "us", "<= 3 commits"),
        received.row("received p50", bench.store, "us", "<= accepted+500us"),
    ])
}

async fn one_by_one(server: &crate::process::Server, receiver: &Receiver) -> anyhow::Result<(Vec<u64>, Vec<u64>)> {
    let load = Load::messages(server, "bench", receiver.plan().messages, 1);
    let mut client = Client::connect(&load.address).await?;
    let (mut accepted, mut received) = (Vec::new(), Vec::new());
    for number in 0..load.requests {
        let started = nanos(Instant::now(), receiver.zero);
        client.send(&load, number).await?;
        accepted.push(nanos(Instant::now(), receiver.zero) - started);
        while receiver.received() <= number {
            tokio::task::yield_now().await;
        }
        received.push(receiver.at_ns(number).saturating_sub(started));
    }
    Ok((accepted, received))
}
