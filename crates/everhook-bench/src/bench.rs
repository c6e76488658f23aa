//! Shared parts of the scenarios: the measured store, the limit of the machine, and traffic with its cost and its
//! check.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::Arguments;
use crate::load::Load;
use crate::process::{Place, Server, connect, postgres_cpu_seconds};
use crate::receiver::{Checked, PAYLOAD_BYTES, Plan, Receiver, payload};
use crate::report::percentile;

/// Connections of the closed loop.
pub(crate) const CLIENTS: usize = 128;
const RAW_CLIENTS: usize = 64;
/// The shortest useful time of a run at a constant rate, in seconds.
const SECONDS_MIN: f64 = 0.3;
/// A run that takes longer has failed.
pub(crate) const RUN_DEADLINE: Duration = Duration::from_secs(300);

/// The store to measure.
pub(crate) struct Bench<'a> {
    pub(crate) arguments: &'a Arguments,
    pub(crate) store: &'static str,
    pub(crate) database: Option<&'a str>,
}

/// The result of one run of traffic.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ran {
    /// Deliveries per second.
    pub(crate) rate: f64,
    /// CPU time of server and database, in microseconds per message.
    pub(crate) cpu_us: f64,
    /// WAL bytes per delivery, without the payload.
    pub(crate) wal_bytes: f64,
    /// The maximum resident memory of any server.
    pub(crate) peak_mib: f64,
    pub(crate) checked: Checked,
}

/// CPU time and WAL since the start.
pub(crate) struct Cost {
    cpu_seconds: f64,
    wal_bytes: f64,
}

impl Bench<'_> {
    /// Scales a number of messages or rows.
    pub(crate) fn scaled(&self, number: usize) -> usize {
        ((number as f64 * self.arguments.scale) as usize).max(100)
    }

    /// Shortens a time, but never extends it.
    pub(crate) fn seconds(&self, seconds: f64) -> f64 {
        (seconds * self.arguments.scale.min(1.0)).max(SECONDS_MIN)
    }

    /// Returns the numbers of the runs, and prints each one.
    pub(crate) fn runs(&self, name: &'static str) -> impl Iterator<Item = usize> {
        let (store, runs) = (self.store, self.arguments.runs);
        (1..=runs).inspect(move |run| eprintln!("{name} on {store}, run {run} of {runs}"))
    }

    /// Creates an empty store.
    pub(crate) async fn place(&self) -> anyhow::Result<Place> {
        Place::new(&self.arguments.server, self.database).await
    }

    pub(crate) async fn cost(&self, servers: &[&Server]) -> anyhow::Result<Cost> {
        let server_cpu: f64 = servers.iter().map(|server| server.cpu_seconds()).sum();
        let Some(url) = self.database else { return Ok(Cost { cpu_seconds: server_cpu, wal_bytes: 0.0 }) };
        let wal = "select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8";
        let wal_bytes = connect(url).await?.query_one(wal, &[]).await?.get(0);
        Ok(Cost { cpu_seconds: server_cpu + postgres_cpu_seconds(), wal_bytes })
    }

    /// Sends messages to an application, in equal parts to all accepting servers, waits until all are received, and
    /// checks them.
    pub(crate) async fn closed_loop(
        &self,
        servers: &[&Server],
        application: &str,
        receiver: &Receiver,
    ) -> anyhow::Result<Ran> {
        let Plan { messages, endpoints, .. } = receiver.plan();
        let before = self.cost(servers).await?;
        let started = Instant::now();
        let accepting: Vec<&&Server> = servers.iter().filter(|server| server.accepts).collect();
        let (share, clients) = (messages.div_ceil(accepting.len()), CLIENTS / accepting.len());
        let loads = accepting.iter().enumerate().map(|(at, server)| {
            let first = at * share;
            let load = Load::messages(server, application, share.min(messages - first), clients);
            Load { first, ..load }.run()
        });
        let all = async {
            futures_util::future::try_join_all(loads).await?;
            receiver.all().await;
            anyhow::Ok(())
        };
        within(receiver, all).await?;
        let seconds = started.elapsed().as_secs_f64();
        let after = self.cost(servers).await?;
        let (messages, deliveries) = (messages as f64, (messages * endpoints) as f64);
        let wal = after.wal_bytes - before.wal_bytes - PAYLOAD_BYTES as f64 * messages;
        Ok(Ran {
            rate: deliveries / seconds,
            cpu_us: (after.cpu_seconds - before.cpu_seconds) / messages * 1e6,
            wal_bytes: wal.max(0.0) / deliveries,
            peak_mib: servers.iter().map(|server| server.peak_mib()).fold(0.0, f64::max),
            checked: receiver.check(),
        })
    }

    /// The rate of generator and receiver without Everhook, in requests per second.
    pub(crate) async fn raw_rate(&self) -> anyhow::Result<f64> {
        let requests = self.scaled(40_000);
        let receiver = Receiver::start(Plan::of(requests, 1)).await?;
        let load = Load {
            address: receiver.address.clone(),
            heads: vec!["POST /0 HTTP/1.1\r\nhost: receiver\r\ncontent-type: application/json".to_owned()],
            keys: false,
            body: payload,
            first: 0,
            requests,
            clients: RAW_CLIENTS,
        };
        Ok(requests as f64 / load.run().await?)
    }

    /// The median time of one small durable commit on this store, in microseconds.
    pub(crate) async fn commit_us(&self) -> anyhow::Result<f64> {
        const COMMITS: usize = 200;
        let mut times = Vec::with_capacity(COMMITS);
        if let Some(url) = self.database {
            let client = connect(url).await?;
            client.batch_execute("drop table if exists bench_commit; create table bench_commit(x bytea)").await?;
            let insert = client.prepare("insert into bench_commit values ($1)").await?;
            for _ in 0..COMMITS {
                let started = Instant::now();
                client.execute(&insert, &[&[0_u8; 100].as_slice()]).await?;
                times.push(u64::try_from(started.elapsed().as_nanos())?);
            }
        } else {
            let folder = tempfile::tempdir()?;
            let connection = rusqlite::Connection::open(folder.path().join("db"))?;
            connection.execute_batch("pragma journal_mode=wal; pragma synchronous=full; create table t(x blob)")?;
            for _ in 0..COMMITS {
                let started = Instant::now();
                connection.execute("insert into t values (?1)", [[0_u8; 100].as_slice()])?;
                times.push(u64::try_from(started.elapsed().as_nanos())?);
            }
        }
        Ok(percentile(&mut times, 0.5) / 1e3)
    }
}

impl Cost {
    /// The CPU microseconds between two measurements, for each of `each_of` items.
    pub(crate) fn cpu_us_until(&self, later: &Cost, each_of: usize) -> f64 {
        (later.cpu_seconds - self.cpu_seconds) / each_of.max(1) as f64 * 1e6
    }
}

/// Waits for the end of a run, with a deadline.
pub(crate) async fn within<T>(receiver: &Receiver, run: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let finished = tokio::time::timeout(RUN_DEADLINE, run).await;
    finished.with_context(|| format!("only {} deliveries came in time", receiver.received()))?
}

/// Creates an application with its endpoints at a receiver.
pub(crate) async fn prepare(server: &Server, application: &str, receiver: &Arc<Receiver>) -> anyhow::Result<()> {
    server.post("/api/v1/app", &format!("{{\"name\":\"bench\",\"uid\":\"{application}\"}}")).await?;
    for endpoint in 0..receiver.plan().endpoints {
        let body = format!("{{\"url\":\"http://{}/{endpoint}\"}}", receiver.address);
        server.post(&format!("/api/v1/app/{application}/endpoint"), &body).await?;
    }
    Ok(())
}

/// Prints the metrics that explain the rate of a run.
pub(crate) async fn explain(server: &Server) -> anyhow::Result<()> {
    eprintln!("  {}", server.metrics().await?.summary());
    Ok(())
}
