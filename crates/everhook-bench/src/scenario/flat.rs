//! Live traffic beside a large backlog costs what it costs beside a small one.
//!
//! Two backlogs: one that is not due, and one in a lane at its limit, because its endpoint hangs. After the
//! measured traffic comes some of which every second message fails at first, so that leases have something to find.

use crate::bench::{Bench, Ran, explain, prepare};
use crate::fill::{Backlog, Due};
use crate::receiver::{Checked, Plan, Receiver};
use crate::report::{Row, Runs, middle};

const LARGE: usize = 10_000_000;
const SMALL: usize = 10_000;
/// Endpoints over which rows that are not due are scattered.
const LANES: usize = 100;
/// How many rows of the stuck lane share a message.
const COPIES: usize = 1_000;

/// What waits beside the traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Idle,
    Stuck,
}

/// What traffic beside one backlog came to.
struct Beside {
    ran: Vec<Ran>,
    claim_p99_ms: f64,
}

pub(super) async fn run(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (kind, name, claim) in
        [(Kind::Idle, "flat, not due", "flat, not due: claim"), (Kind::Stuck, "flat, stuck", "flat, stuck: claim")]
    {
        let small = beside(bench, kind, bench.scaled(SMALL)).await?;
        let large = beside(bench, kind, bench.scaled(LARGE)).await?;
        let (mut cost, mut claims) = (Runs::default(), Runs::default());
        let baseline = middle(&small.ran.iter().map(|ran| ran.cpu_us).collect::<Vec<_>>());
        for ran in &large.ran {
            cost.push(ran.cpu_us, baseline);
            cost.cost(ran);
        }
        cost.checked.add(small.ran.iter().fold(Checked::default(), |mut sum, ran| {
            sum.add(ran.checked);
            sum
        }));
        cost.note = format!("{} rows against {}; RSS <= 250 MiB", bench.scaled(LARGE), bench.scaled(SMALL));
        claims.push(large.claim_p99_ms, small.claim_p99_ms);
        claims.note = "p99, upper bound of its bucket".to_owned();
        rows.push(cost.row(name, bench.store, "us", "<= 110 %"));
        rows.push(claims.row(claim, bench.store, "ms", "<= 10 ms"));
    }
    Ok(rows)
}

async fn beside(bench: &Bench<'_>, kind: Kind, rows: usize) -> anyhow::Result<Beside> {
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
    let mut ran = Vec::new();
    for run in bench.runs("flat") {
        let receiver = Receiver::start(Plan::of(bench.scaled(20_000), 1)).await?;
        let application = format!("live{run}");
        prepare(&server, &application, &receiver).await?;
        ran.push(bench.closed_loop(&[&server], &application, &receiver).await?);
        eprintln!("  {:.0} us of CPU per message beside {rows} rows", ran[run - 1].cpu_us);
    }
    // By itself: retries that are due keep a lane's new messages off the fast path, and how many that meets is chance.
    let failing = Receiver::start(Plan { fail_every: Some(2), ..Plan::of(bench.scaled(5_000), 1) }).await?;
    prepare(&server, "failing", &failing).await?;
    let failed = bench.closed_loop(&[&server], "failing", &failing).await?;
    if let Some(last) = ran.last_mut() {
        last.checked.add(failed.checked);
    }
    explain(&server).await?;
    let claim_p99_ms = server.metrics().await?.quantile("everhook_lease_seconds", 0.99) * 1e3;
    server.stop().await?;
    place.remove().await?;
    Ok(Beside { ran, claim_p99_ms })
}
