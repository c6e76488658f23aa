//! Jobs: enqueued in bulk and burnt down by handlers in this process, beside other job queues on the same PostgreSQL.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::Context as _;
use everhook_worker::{Client, Context, Enqueued, JobError, JobId, Store, Worker};
use tokio::process::Command;
use tokio::sync::Notify;

use crate::bench::{Bench, Ran};
use crate::process::{Place, cpu_of, postgres_cpu_seconds};
use crate::receiver::Checked;
use crate::report::{Row, Runs};

const QUEUE: &str = "bench";
const KIND: &str = "noop";
/// Handlers at once, as the peers have.
const AT_ONCE: usize = 24;
/// Jobs that are made at once: a bulk for each of two transactions, several times.
const PORTION: usize = 20_000;
/// The backlogs that are compared. Few are between 15,000 at the beginning of a round and 5,000 at its end.
const FEW: usize = 15_000;
const MANY: usize = 1_000_000;
/// How many jobs of each are burnt, and how often.
const FLAT_ROUND: usize = 10_000;
const FLAT_ROUNDS: usize = 10;

/// How often each job ran.
type Seen = Arc<Mutex<HashMap<JobId, usize>>>;

/// How many jobs are burnt at once, and how often.
#[derive(Clone, Copy, Debug)]
struct Rounds {
    count: usize,
    jobs: usize,
}

/// What a queue did, in jobs a second.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize)]
struct Rates {
    enqueued: f64,
    ran: f64,
}

/// One burn-down of ours; the CPU is that of a job that ran.
struct Burnt {
    rates: Rates,
    cpu_us: f64,
    checked: Checked,
}

/// The peers, by what they are called here; the last number is of how many jobs theirs is measured.
const PEERS: [(&str, usize); 3] = [("graphile-fast", 100_000), ("graphile-default", 10_000), ("pg-boss", 100_000)];

/// Enqueueing and burning down, and whether the cost of a job grows with the backlog.
pub(super) async fn run(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    let jobs = bench.scaled(100_000);
    let (mut enqueue, mut burn) = (Runs::default(), Runs::default());
    let mut beside: HashMap<&str, Runs> = HashMap::new();
    let mut flat = Runs::default();
    for _ in bench.runs("jobs") {
        let ours = measure(bench, jobs, Rounds { count: 1, jobs }).await?;
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
        for peer in ["graphile-default", "pg-boss"] {
            if let Some(rates) = peers.get(peer) {
                beside.entry(peer).or_default().push(ours.rates.ran, rates.ran);
            }
        }
        // On both sides as many, stopped as often with jobs left over: a burn-down of few alone would be too little CPU to count.
        let rounds = Rounds { count: FLAT_ROUNDS, jobs: bench.scaled(FLAT_ROUND) };
        let small = measure(bench, bench.scaled(FEW), rounds).await?;
        let large = measure(bench, bench.scaled(MANY), rounds).await?;
        flat.push(large.cpu_us, small.cpu_us);
        flat.checked.add(small.checked);
        flat.checked.add(large.checked);
    }
    let (few, many, round) = (bench.scaled(FEW), bench.scaled(MANY), bench.scaled(FLAT_ROUND));
    flat.note = format!("CPU per job, {FLAT_ROUNDS} times {round} of {many} queued against {few}");
    let mut rows = vec![
        enqueue.row("jobs, enqueue, of graphile", bench.store, "/s", ">= 100 %"),
        burn.row("jobs, burn-down, of graphile", bench.store, "/s", ">= 130 %"),
    ];
    for (peer, name, target) in
        [("graphile-default", "jobs, of graphile's default", ">= 1200 %"), ("pg-boss", "jobs, of pg-boss", ">= 400 %")]
    {
        rows.extend(beside.remove(peer).map(|runs| runs.row(name, bench.store, "/s", target)));
    }
    rows.push(flat.row("jobs, flat", bench.store, "us", "<= 120 %"));
    Ok(rows)
}

/// Enqueues `queued` jobs, and burns some of them in rounds. What a round has burnt is replaced before the next, which is not counted.
async fn measure(bench: &Bench<'_>, queued: usize, rounds: Rounds) -> anyhow::Result<Burnt> {
    let place = bench.place().await?;
    let store = open(&place).await?;
    let mut ids = HashSet::with_capacity(queued);
    let enqueued = queued as f64 / enqueue(&store, queued, &mut ids).await?;
    if let Some(client) = place.client().await? {
        client.batch_execute("vacuum analyze").await?;
    }
    let (seen, mut seconds, mut cpu) = (Seen::default(), 0.0, 0.0);
    for round in 0..rounds.count {
        if round > 0 {
            enqueue(&store, rounds.jobs, &mut ids).await?;
        }
        let before = cpu_seconds();
        seconds += burn(store.clone(), &seen, rounds.jobs).await?;
        cpu += cpu_seconds() - before;
    }
    place.remove().await?;
    let (seen, wanted) = (seen.lock().expect("nothing panics while it holds this lock"), rounds.count * rounds.jobs);
    let checked = Checked {
        lost: wanted.saturating_sub(seen.len()),
        invented: seen.keys().filter(|id| !ids.contains(id)).count(),
        duplicated: seen.values().filter(|times| **times > 1).count(),
    };
    let rates = Rates { enqueued, ran: wanted as f64 / seconds };
    Ok(Burnt { rates, cpu_us: cpu * 1e6 / seen.len() as f64, checked })
}

/// Enqueues jobs, and tells how many seconds that took.
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

/// Runs so many jobs and a few more that are under way by then, and tells after how many seconds so many had run.
async fn burn(store: Store, seen: &Seen, jobs: usize) -> anyhow::Result<f64> {
    let finished = Arc::new(Notify::new());
    let wanted = seen.lock().expect("nothing panics while it holds this lock").len() + jobs;
    let handler = {
        let (seen, finished) = (Arc::clone(seen), Arc::clone(&finished));
        move |_: serde::de::IgnoredAny, context: Context| {
            let mut seen = seen.lock().expect("nothing panics while it holds this lock");
            *seen.entry(context.job().id).or_default() += 1;
            if seen.len() == wanted {
                finished.notify_one();
            }
            async { Ok::<(), JobError>(()) }
        }
    };
    let worker = Worker::new(store).register(KIND, handler).concurrency(QUEUE, AT_ONCE);
    let stop = worker.stop_handle();
    let began = Instant::now();
    let running = tokio::spawn(worker.run());
    finished.notified().await;
    let seconds = began.elapsed().as_secs_f64();
    stop.stop();
    running.await??;
    Ok(seconds)
}

async fn open(place: &Place) -> anyhow::Result<Store> {
    Ok(match place.url() {
        Some(url) => Store::postgres(url).await?,
        None => Store::sqlite(&place.data())?,
    })
}

/// The CPU of this process, in which the handlers run, and of the database.
fn cpu_seconds() -> f64 {
    cpu_of(std::process::id()) + postgres_cpu_seconds()
}

/// Runs another job queue on a database of its own; its packages are in `folder`.
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
