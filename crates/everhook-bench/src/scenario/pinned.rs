//! PostgreSQL with an old snapshot: nothing that died since can be removed. At four fifths of the maximal rate, with one message in
//! twenty failing at first.

use std::time::Instant;

use crate::bench::{Bench, explain, prepare, within};
use crate::load::Load;
use crate::process::{Place, Server};
use crate::receiver::{Plan, Receiver};
use crate::report::{Row, Runs};

const CLIENTS: usize = 256;
/// How long the rate is measured, at the end of the time that the snapshot is open.
const MEASURED_SECONDS: f64 = 10.0;

pub(super) async fn run(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    if bench.database.is_none() {
        return Ok(Vec::new());
    }
    let mut runs = Runs::default();
    for _ in bench.runs("pinned") {
        let place = bench.place().await?;
        let server = place.start().await?;
        let receiver = Receiver::start(Plan::of(bench.scaled(20_000), 1)).await?;
        prepare(&server, "maximum", &receiver).await?;
        let rate = bench.closed_loop(&[&server], "maximum", &receiver).await?.rate * 0.8;
        let baseline = delivered(bench, &server, "baseline", rate, &mut runs).await?;
        let pinned = pinned(bench, &place, &server, rate, &mut runs).await?;
        eprintln!("  offered {rate:.0}/s; delivered {baseline:.0}/s without, {pinned:.0}/s with the old snapshot");
        runs.push(pinned, baseline);
        explain(&server).await?;
        server.stop().await?;
        place.remove().await?;
    }
    runs.note = format!("a snapshot open for {:.0} s", bench.arguments.pinned_seconds);
    Ok(vec![runs.row("pinned snapshot", bench.store, "/s", ">= 90 %")])
}

/// Keeps traffic up while a snapshot is open, and tells the rate at the end of that time.
async fn pinned(bench: &Bench<'_>, place: &Place, server: &Server, rate: f64, runs: &mut Runs) -> anyhow::Result<f64> {
    let Some(pin) = place.client().await? else { return Ok(0.0) };
    pin.batch_execute("begin isolation level repeatable read; select count(*) from everhook.lane").await?;
    let started = Instant::now();
    for round in 0_u32.. {
        let last = delivered(bench, server, &format!("pinned{round}"), rate, runs).await?;
        if started.elapsed().as_secs_f64() >= bench.arguments.pinned_seconds {
            pin.batch_execute("rollback").await?;
            return Ok(last);
        }
    }
    Ok(0.0)
}

/// Offers messages at a rate and tells how many a second were delivered.
async fn delivered(
    bench: &Bench<'_>,
    server: &Server,
    application: &str,
    rate: f64,
    runs: &mut Runs,
) -> anyhow::Result<f64> {
    let messages = (rate * bench.seconds(MEASURED_SECONDS)).max(10.0) as usize;
    let plan = Plan { fail_every: Some(20), ..Plan::of(messages, 1) };
    let receiver = Receiver::start(plan).await?;
    prepare(server, application, &receiver).await?;
    let load = Load::messages(server, application, messages, CLIENTS);
    let started = Instant::now();
    // Those that failed come a second later; what counts is what came while messages were sent.
    let delivered = within(&receiver, async {
        load.run_at(rate, receiver.zero).await?;
        let delivered = receiver.received() as f64 / started.elapsed().as_secs_f64();
        receiver.all().await;
        Ok(delivered)
    })
    .await?;
    runs.checked.add(receiver.check());
    Ok(delivered)
}
