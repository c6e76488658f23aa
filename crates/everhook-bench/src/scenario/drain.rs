//! Delivers a backlog spread over many lanes: the cost per delivery should not depend on the size of the backlog.

use std::time::{Duration, Instant};

use crate::bench::{Bench, explain, prepare, within};
use crate::fill::{Backlog, Due, open_tasks};
use crate::receiver::{Plan, Receiver};
use crate::report::{Row, Runs};

const LARGE: usize = 10_000_000;
const SMALL: usize = 10_000;
/// Endpoints that share the backlog.
const LANES: usize = 200;
/// The time in seconds for which the lanes are held after filling, so that the start of the server is not measured.
const HELD_SECONDS: f64 = 3.0;
/// Deliveries after which a run stops. This is enough to measure the cost; ten million would take an hour.
const MEASURED_MAX: usize = 100_000;

pub(super) async fn run(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    let mut runs = Runs::default();
    for _ in bench.runs("drain") {
        let small = drain(bench, bench.scaled(SMALL), &mut runs).await?;
        let large = drain(bench, bench.scaled(LARGE), &mut runs).await?;
        runs.push(large, small);
    }
    runs.note = format!(
        "the first {} of {} rows against {}",
        bench.scaled(LARGE).min(MEASURED_MAX),
        bench.scaled(LARGE),
        bench.scaled(SMALL)
    );
    Ok(vec![runs.row("drain", bench.store, "us", "<= 150 %")])
}

/// Fills and drains a store. Returns the CPU microseconds per delivery. Every filled row must be received or still be
/// stored.
async fn drain(bench: &Bench<'_>, rows: usize, runs: &mut Runs) -> anyhow::Result<f64> {
    let lanes = LANES.min(rows / 10);
    let plan = Plan::of(rows / lanes, lanes);
    let (rows, measured) = (plan.messages * plan.endpoints, (plan.messages * plan.endpoints).min(MEASURED_MAX));
    let place = bench.place().await?;
    let receiver = Receiver::start(plan).await?;
    let server = place.start().await?;
    prepare(&server, "backlog", &receiver).await?;
    server.stop().await?;
    let held = Duration::from_secs_f64(bench.seconds(HELD_SECONDS));
    Backlog { application: "backlog", messages: plan.messages, copies: 1, due: Due::Held(held) }.write(&place).await?;
    let server = place.start().await?;
    let before = bench.cost(&[&server]).await?;
    let started = within(&receiver, async {
        receiver.wait_for(1).await;
        let started = Instant::now();
        receiver.wait_for(measured).await;
        Ok(started)
    })
    .await?;
    let drained = receiver.received();
    let cpu_us = before.cpu_us_until(&bench.cost(&[&server]).await?, drained);
    eprintln!(
        "  {rows} rows: {cpu_us:.0} us of CPU per delivery, {:.0}/s",
        drained as f64 / started.elapsed().as_secs_f64()
    );
    explain(&server).await?;
    server.stop().await?;
    let (mut checked, left) = (receiver.check(), open_tasks(&place).await?);
    // Rows that were not received must still be in the store. More rows are duplicates, fewer are lost.
    checked.lost = checked.lost.saturating_sub(left);
    runs.checked.add(checked);
    place.remove().await?;
    Ok(cpu_us)
}
