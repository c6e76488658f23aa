//! Measures jobs enqueued in bulk and run by handlers in this process, beside other job queues on the same PostgreSQL.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::Context as _;
use everhook_worker::{Client, Context, Enqueued, JobError, JobId, Store, Worker};
use tokio::process::Command;
use tokio::sync::Notify;

use crate::bench::{Bench, RUN_DEADLINE, Ran};
use crate::process::{Place, cpu_of, postgres_cpu_seconds};
use crate::receiver::Checked;
use crate::report::{Row, Runs};

const QUEUE: &str = "bench";
const KIND: &str = "noop";
/// Jobs that run at the same time; the same number as for the other job queues.
const AT_ONCE: usize = 24;
/// Jobs created at once: enough for several transactions on each of two writers.
const PORTION: usize = 20_000;
/// The sizes of the compared backlogs.
const MANY: usize = 1_000_000;
const FEW: usize = 15_000;
/// Rounds on the small backlog, so that both sides measure a similar number of jobs.
const FEW_ROUNDS: usize = 10;

/// The number of runs of each job.
type Seen = Arc<Mutex<HashMap<JobId, usize>>>;

/// A backlog, and the part of it that is measured. The backlog is filled again before each round. The costs of starting
/// and filling are not measured.
#[derive(Clone, Copy, Debug)]
struct Plan {
    queued: usize,
    rounds: usize,
    /// Jobs that run before the measurement starts.
    skipped: usize,
    counted: usize,
}

/// Time and CPU used until a certain number of jobs had run.
#[derive(Clone, Copy, Debug)]
struct Mark {
    ran: usize,
    cpu_seconds: f64,
    at: Instant,
}

/// Jobs per second of one queue.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize)]
struct Rates {
    enqueued: f64,
    ran: f64,
}

/// The result of running one backlog.
struct Burnt {
    rates: Rates,
    cpu_us: f64,
    checked: Checked,
}

/// The other job queues by name, each with the number of jobs to measure.
const PEERS: [(&str, usize); 4] =
    [("graphile-fast", 100_000), ("graphile-default", 10_000), ("pg-boss-10", 100_000), ("pg-boss-12", 100_000)];

/// Measures enqueueing and running, and whether the cost of a job grows with the backlog.
pub(super) async fn run(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    let (jobs, few, many) = (bench.scaled(100_000), bench.scaled(FEW), bench.scaled(MANY));
    let (mut enqueue, mut burn) = (Runs::default(), Runs::default());
    let mut beside: HashMap<&str, Runs> = HashMap::new();
    let mut flat = Runs::default();
    for _ in bench.runs("jobs") {
        let ours = measure(bench, Plan { queued: jobs, rounds: 1, skipped: 0, counted: jobs }).await?;
        let mut peers = HashMap::new();
        if let (Some(folder), Some(url)) = (&bench.arguments.peers, bench.database) {
            for (peer, count) in PEERS {
                peers.insert(peer, run_peer(folder, url, peer, bench.scaled(count)).await?);
            }
        }
        let fastest = peers.get("graphile-fast").copied().unwrap_or_default();
        enqueue.push(ours.rates.enqueued, fastest.enqueued);
        burn.push(ours.rates.ran, fastest.ran);
        burn.cost(&Ran { cpu_us: ours.cpu_us, checked: ours.checked, ..Ran::default() });
        for peer in ["graphile-default", "pg-boss-10", "pg-boss-12"] {
            if let Some(rates) = peers.get(peer) {
                beside.entry(peer).or_default().push(ours.rates.ran, rates.ran);
            }
        }
        // Both sides measure the same number of jobs, because few jobs use too little CPU for the clock's resolution.
        // The start is not measured: a starting node counts the backlog up to a limit, and repeats that only every 15
        // seconds.
        let few_plan = Plan { queued: few, rounds: FEW_ROUNDS, skipped: few / 6, counted: few / 3 * 2 };
        let small = measure(bench, few_plan).await?;
        let large = measure(bench, Plan { queued: many, rounds: 1, skipped: many / 50, counted: many / 10 }).await?;
        flat.push(large.cpu_us, small.cpu_us);
        flat.checked.add(small.checked);
        flat.checked.add(large.checked);
    }
    flat.note =
        format!("CPU per job, {} of {many} queued against {FEW_ROUNDS} times {} of {few}", many / 10, few / 3 * 2);
    let mut rows = vec![
        enqueue.row("jobs, enqueue, of graphile", bench.store, "/s", ">= 100 %"),
        burn.row("jobs, burn-down, of graphile", bench.store, "/s", ">= 130 %"),
    ];
    for (peer, name, target) in [
        ("graphile-default", "jobs, of graphile's default", ">= 1200 %"),
        ("pg-boss-10", "jobs, of pg-boss 10.4", ">= 400 %"),
        ("pg-boss-12", "jobs, of pg-boss 12.35", ""),
    ] {
        rows.extend(beside.remove(peer).map(|runs| runs.row(name, bench.store, "/s", target)));
    }
    rows.push(flat.row("jobs, flat", bench.store, "us", "<= 120 %"));
    Ok(rows)
}

/// Enqueues a backlog and runs it as planned.
async fn measure(bench: &Bench<'_>, plan: Plan) -> anyhow::Result<Burnt> {
    let place = bench.place().await?;
    let store = open(&place).await?;
    let mut ids = HashSet::with_capacity(plan.queued);
    let enqueued = plan.queued as f64 / enqueue(&store, plan.queued, &mut ids).await?;
    if let Some(client) = place.client().await? {
        client.batch_execute("vacuum analyze").await?;
    }
    let (seen, mut ran, mut seconds, mut cpu_seconds) = (Seen::default(), 0, 0.0, 0.0);
    for _ in 0..plan.rounds {
        let burnt = len(&seen);
        enqueue(&store, plan.queued + burnt - ids.len(), &mut ids).await?;
        let [from, to] =
            burn(store.clone(), &seen, [burnt + plan.skipped, burnt + plan.skipped + plan.counted]).await?;
        ran += to.ran - from.ran;
        seconds += to.at.duration_since(from.at).as_secs_f64();
        cpu_seconds += to.cpu_seconds - from.cpu_seconds;
    }
    place.remove().await?;
    let seen = seen.lock().expect("nothing panics while it holds this lock");
    let checked = Checked {
        lost: (plan.rounds * (plan.skipped + plan.counted)).saturating_sub(seen.len()),
        invented: seen.keys().filter(|id| !ids.contains(id)).count(),
        duplicated: seen.values().filter(|times| **times > 1).count(),
    };
    let rates = Rates { enqueued, ran: ran as f64 / seconds };
    Ok(Burnt { rates, cpu_us: cpu_seconds * 1e6 / ran as f64, checked })
}

/// Enqueues jobs and returns the seconds that this took.
async fn enqueue(store: &Store, count: usize, ids: &mut HashSet<JobId>) -> anyhow::Result<f64> {
    let client = Client::new(store, "default").await?;
    let mut spent = 0.0;
    for begin in (0..count).step_by(PORTION) {
        let portion = begin..count.min(begin + PORTION);
        let jobs: Result<Vec<_>, _> =
            portion.map(|n| client.job(QUEUE, KIND, &serde_json::json!({ "id": n }))).collect();
        let jobs = jobs?;
        ids.extend(jobs.iter().map(|new| new.job.id));
        let began = Instant::now();
        let answers = client.enqueue_all(jobs).await?;
        spent += began.elapsed().as_secs_f64();
        anyhow::ensure!(answers.iter().all(|answer| matches!(answer, Enqueued::Accepted { .. })), "a job was refused");
    }
    Ok(spent)
}

/// Runs jobs. Returns time and CPU at the moments when each of two numbers of jobs had run; running jobs then finish.
async fn burn(store: Store, seen: &Seen, edges: [usize; 2]) -> anyhow::Result<[Mark; 2]> {
    let reached = edges.map(|_| Arc::new(Notify::new()));
    let handler = {
        let (seen, reached) = (Arc::clone(seen), reached.clone());
        move |_: serde::de::IgnoredAny, context: Context| {
            let mut seen = seen.lock().expect("nothing panics while it holds this lock");
            *seen.entry(context.job().id).or_default() += 1;
            for (_, reached) in edges.iter().zip(&reached).filter(|(edge, _)| seen.len() == **edge) {
                reached.notify_one();
            }
            async { Ok::<(), JobError>(()) }
        }
    };
    let worker = Worker::new(store).register(KIND, handler).concurrency(QUEUE, AT_ONCE);
    let stop = worker.stop_handle();
    let mut marks = [Mark::now(seen); 2];
    let running = tokio::spawn(worker.run());
    for ((mark, reached), edge) in marks.iter_mut().zip(&reached).zip(edges) {
        if edge > mark.ran {
            let reached = tokio::time::timeout(RUN_DEADLINE, reached.notified()).await;
            reached.with_context(|| format!("only {} jobs of {edge} ran in time", len(seen)))?;
            *mark = Mark::now(seen);
        }
    }
    stop.stop();
    running.await??;
    Ok(marks)
}

impl Mark {
    fn now(seen: &Seen) -> Mark {
        Mark { ran: len(seen), cpu_seconds: cpu_seconds(), at: Instant::now() }
    }
}

fn len(seen: &Seen) -> usize {
    seen.lock().expect("nothing panics while it holds this lock").len()
}

async fn open(place: &Place) -> anyhow::Result<Store> {
    Ok(match place.url() {
        Some(url) => Store::postgres(url).await?,
        None => Store::sqlite(&place.data())?,
    })
}

/// CPU seconds of this process, which runs the handlers, and of the database.
fn cpu_seconds() -> f64 {
    cpu_of(std::process::id()) + postgres_cpu_seconds()
}

/// Runs another job queue on its own database; its packages are in `folder`.
async fn run_peer(folder: &Path, admin_url: &str, peer: &str, jobs: usize) -> anyhow::Result<Rates> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/jobs.mjs");
    let (base, _) = admin_url.rsplit_once('/').context("the database URL names a database")?;
    let client = crate::process::connect(admin_url).await?;
    client.batch_execute("drop database if exists bench_peer").await?;
    client.batch_execute("create database bench_peer").await?;
    eprintln!("  {peer}, {jobs} jobs");
    let mut node = Command::new("node");
    node.arg(script).args([peer, &format!("{base}/bench_peer"), &jobs.to_string()]).current_dir(folder);
    let output = node.output().await.context("could not run node")?;
    client.batch_execute("drop database if exists bench_peer with (force)").await?;
    let said = String::from_utf8_lossy(&output.stdout);
    let line = said.lines().rev().find(|line| line.starts_with('{'));
    let line = line.with_context(|| format!("{peer} failed: {}", String::from_utf8_lossy(&output.stderr)))?;
    Ok(serde_json::from_str(line)?)
}
