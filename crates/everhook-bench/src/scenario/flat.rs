//! Compares the cost of traffic beside a large backlog with the cost beside a small one.
//!
//! There are two kinds of backlog: one that is not due, and one in a lane at its limit, because its endpoint hangs.
//! After the measured traffic, every second message fails once, so that leases have tasks to find.

use std::sync::Arc;

use crate::bench::{Bench, Ran, explain, prepare};
use crate::fill::{Backlog, Due};
use crate::process::{Place, Server};
use crate::receiver::{Plan, Receiver};
use crate::report::{Row, Runs};

const LARGE: usize = 10_000_000;
const SMALL: usize = 10_000;
/// Endpoints that share the rows that are not due.
const LANES: usize = 100;
/// Rows of the stuck lane that share one message.
const COPIES: usize = 1_000;

/// The kind of backlog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Idle,
    Stuck,
}

/// A store with a backlog, its server, and the results of the traffic beside it.
struct Beside {
    place: Place,
    server: Server,
    rows: usize,
    ran: Vec<Ran>,
    /// Receivers that never answer the deliveries of the backlog.
    _hang: [Arc<Receiver>; 2],
}

pub(super) async fn run(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (kind, name, claim) in
        [(Kind::Idle, "flat, not due", "flat, not due: claim"), (Kind::Stuck, "flat, stuck", "flat, stuck: claim")]
    {
        let mut small = Beside::fill(bench, kind, bench.scaled(SMALL)).await?;
        let mut large = Beside::fill(bench, kind, bench.scaled(LARGE)).await?;
        // The runs alternate, because the other load of the machine changes over time.
        for run in bench.runs("flat") {
            small.measure(bench, run).await?;
            large.measure(bench, run).await?;
        }
        let (mut cost, mut claims) = (Runs::default(), Runs::default());
        for (large, small) in large.ran.iter().zip(&small.ran) {
            cost.push(large.cpu_us, small.cpu_us);
            cost.cost(large);
            cost.checked.add(small.checked);
        }
        cost.note = format!("{} rows against {}; RSS <= 250 MiB", large.rows, small.rows);
        claims.push(large.end().await?, small.end().await?);
        claims.note = "p99, upper bound of its bucket".to_owned();
        rows.push(cost.row(name, bench.store, "us", "<= 110 %"));
        rows.push(claims.row(claim, bench.store, "ms", "<= 10 ms"));
    }
    Ok(rows)
}

impl Beside {
    async fn fill(bench: &Bench<'_>, kind: Kind, rows: usize) -> anyhow::Result<Beside> {
        let place = bench.place().await?;
        let idle = Receiver::start(Plan { hangs: true, ..Plan::of(1, LANES) }).await?;
        let stuck = Receiver::start(Plan { hangs: true, ..Plan::of(1, 1) }).await?;
        let server = place.start().await?;
        prepare(&server, "idle", &idle).await?;
        prepare(&server, "stuck", &stuck).await?;
        server.stop().await?;
        let due = if kind == Kind::Stuck { rows / 100 * 99 } else { 0 };
        let messages = ((rows - due) / LANES).max(1);
        Backlog { application: "idle", messages, copies: 1, due: Due::Tomorrow }.write(&place).await?;
        if due > 0 {
            let (messages, copies) = (due.div_ceil(COPIES), COPIES.min(due));
            Backlog { application: "stuck", messages, copies, due: Due::Now }.write(&place).await?;
        }
        let server = place.start().await?;
        Ok(Beside { place, server, rows, ran: Vec::new(), _hang: [idle, stuck] })
    }

    async fn measure(&mut self, bench: &Bench<'_>, run: usize) -> anyhow::Result<()> {
        let receiver = Receiver::start(Plan::of(bench.scaled(20_000), 1)).await?;
        let application = format!("live{run}");
        prepare(&self.server, &application, &receiver).await?;
        let mut ran = bench.closed_loop(&[&self.server], &application, &receiver).await?;
        eprintln!("  {:.0} us of CPU per message beside {} rows", ran.cpu_us, self.rows);
        // This traffic is separate. Due retries keep new messages of a lane off the fast path, and the number of
        // affected messages varies at random.
        let failing = Receiver::start(Plan { fail_every: Some(2), ..Plan::of(bench.scaled(5_000), 1) }).await?;
        let application = format!("failing{run}");
        prepare(&self.server, &application, &failing).await?;
        ran.checked.add(bench.closed_loop(&[&self.server], &application, &failing).await?.checked);
        self.ran.push(ran);
        Ok(())
    }

    /// Stops the server; returns the p99 of its leases in milliseconds.
    async fn end(self) -> anyhow::Result<f64> {
        explain(&self.server).await?;
        let claim_p99_ms = self.server.metrics().await?.quantile("everhook_lease_seconds", 0.99) * 1e3;
        self.server.stop().await?;
        self.place.remove().await?;
        Ok(claim_p99_ms)
    }
}
