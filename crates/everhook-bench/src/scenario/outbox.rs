//! Compares the rate of the outbox in the store's own database with the rate of the API in the same run.

use std::time::{Duration, Instant};

use anyhow::Context;

use crate::bench::{Bench, CLIENTS, Ran, explain, prepare, within};
use crate::load::Load;
use crate::process::Server;
use crate::receiver::{Plan, Receiver, payload};
use crate::report::{Row, Runs};

/// The interval of checks whether the outbox is empty.
const LOOK: Duration = Duration::from_millis(2);

/// Measures the rows per second from their commit until the outbox is empty. The limit is the rate of the API from the
/// first request to the last 202.
pub(super) async fn run(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    if bench.database.is_none() {
        return Ok(Vec::new());
    }
    let mut runs = Runs::default();
    for _ in bench.runs("outbox") {
        let place = bench.place().await?;
        let server = place.start().await?;
        let receiver = Receiver::start(Plan::of(bench.scaled(20_000), 1)).await?;
        prepare(&server, "bench", &receiver).await?;
        let messages = receiver.plan().messages;
        let limit = messages as f64 / Load::messages(&server, "bench", messages, CLIENTS).run().await?;
        finish(server, &receiver, &mut runs).await?;
        place.remove().await?;

        let place = bench.place().await?;
        let client = place.client().await?.context("the outbox needs PostgreSQL")?;
        let server = place.start().await?;
        let receiver = Receiver::start(receiver.plan()).await?;
        prepare(&server, "bench", &receiver).await?;
        let payloads: Vec<String> = (0..messages).map(payload).collect();
        let before = bench.cost(&[&server]).await?;
        client.batch_execute("begin").await?;
        let send = "select everhook.send('bench', 'bench.event', payload) from unnest($1::text[]) as payload";
        client.query(send, &[&payloads]).await?;
        let started = Instant::now();
        client.batch_execute("commit").await?;
        while !client.query("select 1 from everhook.outbox limit 1", &[]).await?.is_empty() {
            tokio::time::sleep(LOOK).await;
        }
        let rate = messages as f64 / started.elapsed().as_secs_f64();
        let cpu_us = before.cpu_us_until(&bench.cost(&[&server]).await?, messages);
        runs.push(rate, limit);
        runs.cost(&Ran { rate, cpu_us, peak_mib: server.peak_mib(), ..Ran::default() });
        explain(&server).await?;
        finish(server, &receiver, &mut runs).await?;
        place.remove().await?;
    }
    Ok(vec![runs.row("outbox, of API accepts", bench.store, "/s", "")])
}

/// Waits for the deliveries and checks them.
async fn finish(server: Server, receiver: &Receiver, runs: &mut Runs) -> anyhow::Result<()> {
    within(receiver, async {
        receiver.all().await;
        Ok(())
    })
    .await?;
    server.stop().await?;
    runs.checked.add(receiver.check());
    Ok(())
}
