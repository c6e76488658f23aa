//! Measures PostgreSQL with a long open transaction, which keeps dead rows from being removed. The load is four fifths
//! of the maximum rate, and one message in twenty fails once.

use std::sync::Arc;
use std::time::Instant;

use crate::bench::{Bench, explain, prepare, within};
use crate::load::Load;
use crate::process::{Place, Server};
use crate::receiver::{Plan, Receiver};
use crate::report::{Row, Runs};

const CLIENTS: usize = 256;
/// Applications with one endpoint each, in the variant with many. The number shares no divisor with the failure
/// interval, so that each application has failing messages.
const MANY: usize = 51;
/// The time of the measurement, at the end of the open snapshot.
const MEASURED_SECONDS: f64 = 10.0;

pub(super) async fn run(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    if bench.database.is_none() {
        return Ok(Vec::new());
    }
    let one = run_with(bench, 1, "pinned snapshot").await?;
    Ok(vec![one, run_with(bench, MANY, "pinned, 51 endpoints").await?])
}

async fn run_with(bench: &Bench<'_>, endpoints: usize, name: &'static str) -> anyhow::Result<Row> {
    let mut runs = Runs::default();
    for _ in bench.runs("pinned") {
        let place = bench.place().await?;
        let server = place.start().await?;
        let receiver = Receiver::start(Plan::of(bench.scaled(20_000), 1)).await?;
        prepare(&server, "maximum", &receiver).await?;
        let rate = bench.closed_loop(&[&server], "maximum", &receiver).await?.rate * 0.8;
        let seconds = bench.seconds(MEASURED_SECONDS);
        let mut before = Traffic::start(&server, "baseline", endpoints, (rate * seconds, 1), rate).await?;
        let baseline = before.round(&server).await?;
        let rounds = (bench.arguments.pinned_seconds / seconds).ceil().max(1.0) as usize;
        let mut traffic = Traffic::start(&server, "pinned", endpoints, (rate * seconds, rounds), rate).await?;
        let pinned = pinned(&place, &server, &mut traffic).await?;
        runs.checked.add(before.receiver.check());
        runs.checked.add(traffic.receiver.check());
        eprintln!("  offered {rate:.0}/s; delivered {baseline:.0}/s without, {pinned:.0}/s with the old snapshot");
        runs.push(pinned, baseline);
        explain(&server).await?;
        server.stop().await?;
        place.remove().await?;
    }
    runs.note = format!("a snapshot open for {:.0} s", bench.arguments.pinned_seconds);
    Ok(runs.row(name, bench.store, "/s", ">= 90 %"))
}

/// Sends traffic while a snapshot is open, and returns the rate of the last round.
async fn pinned(place: &Place, server: &Server, traffic: &mut Traffic) -> anyhow::Result<f64> {
    let Some(pin) = place.client().await? else { return Ok(0.0) };
    pin.batch_execute("begin isolation level repeatable read; select count(*) from everhook.lane").await?;
    let mut last = 0.0;
    while traffic.sent < traffic.receiver.plan().messages {
        last = traffic.round(server).await?;
    }
    pin.batch_execute("rollback").await?;
    Ok(last)
}

/// Messages at a constant rate, in rounds, to several applications in turn.
struct Traffic {
    applications: Vec<String>,
    receiver: Arc<Receiver>,
    rate: f64,
    round: usize,
    sent: usize,
}

impl Traffic {
    /// Creates applications with one endpoint each, and a receiver for all rounds.
    async fn start(
        server: &Server,
        name: &str,
        endpoints: usize,
        (messages, rounds): (f64, usize),
        rate: f64,
    ) -> anyhow::Result<Traffic> {
        let round = messages.max(10.0) as usize;
        let receiver = Receiver::start(Plan { fail_every: Some(20), ..Plan::of(round * rounds, 1) }).await?;
        let applications: Vec<String> = (0..endpoints).map(|number| format!("{name}{number}")).collect();
        for application in &applications {
            prepare(server, application, &receiver).await?;
        }
        Ok(Traffic { applications, receiver, rate, round, sent: 0 })
    }

    /// Sends the messages of one round, waits for them, and returns the deliveries per second.
    async fn round(&mut self, server: &Server) -> anyhow::Result<f64> {
        let load = Load::scattered(server, &self.applications, self.round, CLIENTS);
        let load = Load { first: self.sent, ..load };
        self.sent += self.round;
        let (started, before) = (Instant::now(), self.receiver.received());
        // Failed messages arrive a second later. The rate only counts deliveries that arrived while messages were sent.
        within(&self.receiver, async {
            load.run_at(self.rate, self.receiver.zero).await?;
            let delivered = (self.receiver.received() - before) as f64 / started.elapsed().as_secs_f64();
            self.receiver.wait_for(self.sent).await;
            Ok(delivered)
        })
        .await
    }
}
