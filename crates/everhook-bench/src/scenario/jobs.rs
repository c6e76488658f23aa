//! Jobs: enqueued in bulk and burnt down by handlers in this process, beside other job queues on the same PostgreSQL.

use std::collections::HashMap;
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

/// What a queue did, in jobs a second.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize)]
struct Rates {
    enqueued: f64,
    ran: f64,
}

/// One burn-down of ours.
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
        let ours = measure(bench, jobs, jobs).await?;
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
        let small = measure(bench, bench.scaled(10_000), bench.scaled(10_000)).await?;
        let large = measure(bench, bench.scaled(1_000_000), bench.scaled(10_000)).await?;
        flat.push(large.cpu_us, small.cpu_us);
        flat.checked.add(large.checked);
    }
    flat.note = format!("CPU per job, {} queued against {}", bench.scaled(1_000_000), bench.scaled(10_000));
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

/// Enqueues `queued` jobs and runs the first `counted` of them.
async fn measure(bench: &Bench<'_>, queued: usize, counted: usize) -> anyhow::Result<Burnt> {
    let place = bench.place().await?;
    let store = open(&place).await?;
    let client = Client::new(&store, "default").await?;
    let (mut spent, mut ids) = (0.0, Vec::with_capacity(queued));
    for begin in (0..queued).step_by(PORTION) {
        let portion = begin..queued.min(begin + PORTION);
        let jobs: Result<Vec<_>, _> =
            portion.map(|n| client.job(QUEUE, KIND, &serde_json::json!({ "id": n }))).collect();
        let jobs = jobs?;
        ids.extend(jobs.iter().map(|new| new.job.id));
        let began = Instant::now();
        let answers = client.enqueue_all(jobs).await?;
        spent += began.elapsed().as_secs_f64();
        anyhow::ensure!(answers.iter().all(|answer| matches!(answer, Enqueued::Accepted { .. })), "a job was refused");
    }
    let enqueued = queued as f64 / spent;
    if let Some(client) = place.client().await? {
        client.batch_execute("vacuum analyze").await?;
    }

    let ran: Arc<Mutex<HashMap<JobId, usize>>> = Arc::default();
    let finished = Arc::new(Notify::new());
    let handler = {
        let (ran, finished) = (Arc::clone(&ran), Arc::clone(&finished));
        move |_: serde::de::IgnoredAny, context: Context| {
            let mut ran = ran.lock().expect("nothing panics while it holds this lock");
            *ran.entry(context.job().id).or_default() += 1;
            if ran.len() == counted {
                finished.notify_one();
            }
            async { Ok::<(), JobError>(()) }
        }
    };
    let worker = Worker::new(store).register(KIND, handler).concurrency(QUEUE, AT_ONCE);
    let stop = worker.stop_handle();
    let (began, cpu) = (Instant::now(), cpu_seconds());
    let running = tokio::spawn(worker.run());
    finished.notified().await;
    let seconds = began.elapsed().as_secs_f64();
    let cpu_us = (cpu_seconds() - cpu) * 1e6 / counted as f64;
    stop.stop();
    running.await??;
    let checked = check(&ids, counted, &ran.lock().expect("nothing panics while it holds this lock"));
    place.remove().await?;
    Ok(Burnt { rates: Rates { enqueued, ran: counted as f64 / seconds }, cpu_us, checked })
}

async fn open(place: &Place) -> anyhow::Result<Store> {
    Ok(match place.url() {
        Some(url) => Store::postgres(url).await?,
        None => Store::sqlite(&place.data())?,
    })
}

fn check(ids: &[JobId], counted: usize, ran: &HashMap<JobId, usize>) -> Checked {
    let known: std::collections::HashSet<_> = ids.iter().collect();
    Checked {
        lost: counted.saturating_sub(ran.len()),
        invented: ran.keys().filter(|id| !known.contains(id)).count(),
        duplicated: ran.values().filter(|times| **times > 1).count(),
    }
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
