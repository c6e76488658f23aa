//! Sends at a constant rate: half and four fifths of the maximum that a closed loop reached in the same run. Latencies
//! count from the planned time of a request, so that a stall shows in every request that it would have delayed.

use crate::bench::{Bench, explain, prepare, within};
use crate::load::Load;
use crate::receiver::{Plan, Receiver};
use crate::report::{Row, Runs, percentile};

/// Connections; more than are in use at the same time, unless the server stalls.
const CLIENTS: usize = 256;
/// Fractions of the maximum rate, each with the names of its rows.
const SHARES: [(f64, [&str; 2]); 2] =
    [(0.5, ["50% accepted p99", "50% received p99"]), (0.8, ["80% accepted p99", "80% received p99"])];

/// Latencies of one run in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
}

pub(super) async fn run(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    let mut rows: Vec<[Runs; 2]> = SHARES.iter().map(|_| Default::default()).collect();
    for _ in bench.runs("rate") {
        let place = bench.place().await?;
        let server = place.start().await?;
        let receiver = Receiver::start(Plan::of(bench.scaled(20_000), 1)).await?;
        prepare(&server, "maximum", &receiver).await?;
        let maximum = bench.closed_loop(&[&server], "maximum", &receiver).await?.rate;
        for ((share, _), [accepted, received]) in SHARES.iter().zip(&mut rows) {
            let rate = maximum * share;
            let receiver = Receiver::start(Plan::of((rate * bench.seconds(10.0)).max(10.0) as usize, 1)).await?;
            let application = format!("share{}", (share * 100.0) as u32);
            prepare(&server, &application, &receiver).await?;
            let load = Load::messages(&server, &application, receiver.plan().messages, CLIENTS);
            let (until_accepted, until_received) = open_loop(load, rate, &receiver).await?;
            eprintln!("  {rate:.0}/s: accepted {until_accepted:.0?}, received {until_received:.0?} in us");
            accepted.push(until_accepted.p99, until_accepted.p50);
            received.push(until_received.p99, until_received.p50);
            accepted.note = until_accepted.note(rate);
            received.note = until_received.note(rate);
            accepted.checked.add(receiver.check());
            received.checked = accepted.checked;
        }
        explain(&server).await?;
        server.stop().await?;
        place.remove().await?;
    }
    let named = SHARES.iter().zip(rows).flat_map(|((_, names), runs)| names.iter().zip(runs));
    Ok(named.map(|(name, runs)| runs.row(name, bench.store, "us", "")).collect())
}

/// Sends at a constant rate until all messages are received. Returns the times until accepted and until received.
pub(crate) async fn open_loop(load: Load, rate: f64, receiver: &Receiver) -> anyhow::Result<(Spread, Spread)> {
    let sent = within(receiver, async {
        let sent = load.run_at(rate, receiver.zero).await?;
        receiver.all().await;
        Ok(sent)
    })
    .await?;
    let mut accepted: Vec<u64> = sent.iter().map(|(meant, answered)| answered - meant).collect();
    let received = |(number, (meant, _)): (usize, &(u64, u64))| receiver.at_ns(number).saturating_sub(*meant);
    let mut received: Vec<u64> = sent.iter().enumerate().map(received).collect();
    Ok((Spread::of(&mut accepted), Spread::of(&mut received)))
}

impl Spread {
    fn of(times: &mut [u64]) -> Spread {
        let mut at = |share| percentile(times, share) / 1e3;
        Spread { p50: at(0.5), p99: at(0.99), p999: at(0.999) }
    }

    fn note(&self, rate: f64) -> String {
        format!("last run at {rate:.0}/s: p50 {:.0}, p99 {:.0}, p99.9 {:.0} us", self.p50, self.p99, self.p999)
    }
}
