//! The scenarios.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::Arguments;
use crate::http::{read_frame, status};
use crate::load::Load;
use crate::process::{Server, Store, postgres_cpu_seconds};
use crate::receiver::{Receiver, payload};
use crate::report::{Report, Row, median, percentile};

pub(crate) const CLIENTS: usize = 128;
const RAW_CLIENTS: usize = 64;
/// A run that takes longer hangs, and that is a result.
pub(crate) const RUN_DEADLINE: Duration = Duration::from_secs(300);

/// Runs what was asked for, on every store there is.
pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<Report> {
    let mut stores = vec![("sqlite", None)];
    if let Some(url) = &arguments.database {
        stores.push(("postgres", Some(url.as_str())));
    }
    let wanted = |name: &str| arguments.names.is_empty() || arguments.names.iter().any(|wanted| wanted == name);
    let scale = |messages: usize| ((messages as f64 * arguments.scale) as usize).max(100);
    let mut report = Report::default();
    for (store, database) in stores {
        let bench = Bench { arguments, store, database };
        if wanted("one") {
            report.rows.push(bench.throughput("1 endpoint", scale(20_000), 1).await?);
        }
        if wanted("five") {
            report.rows.push(bench.throughput("5 endpoints", scale(4_000), 5).await?);
        }
        if wanted("outbox") && database.is_some() {
            report.rows.push(bench.outbox(scale(20_000)).await?);
        }
        if wanted("latency") {
            report.rows.extend(bench.latency(scale(1_000)).await?);
        }
    }
    Ok(report)
}

pub(crate) struct Bench<'a> {
    pub(crate) arguments: &'a Arguments,
    pub(crate) store: &'static str,
    database: Option<&'a str>,
}

impl Bench<'_> {
    async fn throughput(&self, name: &str, messages: usize, endpoints: usize) -> anyhow::Result<Row> {
        let (mut rates, mut limits, mut cpu, mut wal, mut resident) = (vec![], vec![], vec![], vec![], vec![]);
        let mut checked = crate::receiver::Checked::default();
        for run in 1..=self.arguments.runs {
            eprintln!("{name} on {}, run {run} of {}", self.store, self.arguments.runs);
            limits.push(raw_rate(messages * endpoints).await?);
            let (server, admin) = self.server().await?;
            let receiver = Receiver::start(messages, endpoints).await?;
            prepare(&server, &receiver, endpoints).await?;
            let (cpu_before, wal_before) =
                (server.cpu_seconds() + self.database_cpu(), wal_bytes(admin.as_ref()).await?);
            let started = Instant::now();
            let load = message_load(&server, messages, CLIENTS).run();
            let all = async {
                load.await?;
                receiver.all().await;
                anyhow::Ok(())
            };
            let finished = tokio::time::timeout(RUN_DEADLINE, all).await;
            finished.with_context(|| format!("only {} deliveries came", receiver.received()))??;
            let deliveries = (messages * endpoints) as f64;
            rates.push(deliveries / started.elapsed().as_secs_f64());
            resident.push(server.resident_mib());
            cpu.push((server.cpu_seconds() + self.database_cpu() - cpu_before) / messages as f64 * 1e6);
            let payload_bytes = 512.0 * messages as f64;
            wal.push((wal_bytes(admin.as_ref()).await? - wal_before - payload_bytes).max(0.0) / deliveries);
            eprintln!("  {}", server.metrics().await?.summary());
            server.stop().await?;
            let run_checked = receiver.check();
            checked.lost += run_checked.lost;
            checked.invented += run_checked.invented;
            checked.duplicated += run_checked.duplicated;
        }
        let (median_rate, limit) = (median(&rates), median(&limits));
        Ok(Row {
            scenario: name.to_owned(),
            store: self.store.to_owned(),
            median: median_rate,
            runs: rates,
            unit: "/s",
            limit,
            ratio: median_rate / limit,
            cpu_us_per_message: median(&cpu),
            wal_bytes_per_delivery: median(&wal),
            resident_mib: median(&resident),
            checked,
        })
    }

    /// One message at a time: until it is accepted, and until it is received.
    async fn latency(&self, messages: usize) -> anyhow::Result<[Row; 2]> {
        let (mut accepted, mut received, mut commits) = (vec![], vec![], vec![]);
        let (mut checked, mut resident) = (crate::receiver::Checked::default(), 0.0);
        for run in 1..=self.arguments.runs {
            eprintln!("latency on {}, run {run} of {}", self.store, self.arguments.runs);
            commits.push(self.commit_us().await?);
            let (server, _admin) = self.server().await?;
            let receiver = Receiver::start(messages, 1).await?;
            prepare(&server, &receiver, 1).await?;
            let load = message_load(&server, messages, 1);
            let (mut until_accepted, mut until_received) = one_by_one(&load, &receiver).await?;
            accepted.push(percentile(&mut until_accepted, 0.5) / 1e3);
            received.push(percentile(&mut until_received, 0.5) / 1e3);
            resident = server.resident_mib();
            eprintln!("  {}", server.metrics().await?.summary());
            server.stop().await?;
            checked.lost += receiver.check().lost;
            checked.duplicated += receiver.check().duplicated;
        }
        let row = |scenario: &str, runs: Vec<f64>, limit: f64| Row {
            scenario: scenario.to_owned(),
            store: self.store.to_owned(),
            median: median(&runs),
            ratio: median(&runs) / limit,
            runs,
            unit: "us",
            limit,
            cpu_us_per_message: 0.0,
            wal_bytes_per_delivery: 0.0,
            resident_mib: resident,
            checked,
        };
        let commit = median(&commits);
        Ok([row("accepted p50", accepted.clone(), commit), row("received p50", received, median(&accepted))])
    }

    async fn server(&self) -> anyhow::Result<(Server, Option<tokio_postgres::Client>)> {
        if self.database.is_none() {
            return Ok((Server::start(&self.arguments.server, &Store::Sqlite).await?, None));
        }
        let (server, admin, _) = self.server_with_client().await?;
        Ok((server, Some(admin)))
    }

    /// A server on a new database, with a connection to the server of databases and one to its own.
    pub(crate) async fn server_with_client(
        &self,
    ) -> anyhow::Result<(Server, tokio_postgres::Client, tokio_postgres::Client)> {
        let url = self.database.context("it needs a PostgreSQL")?;
        let admin = connect(url).await?;
        let name = format!("bench_{}_{}", std::process::id(), unique());
        admin.batch_execute(&format!("create database {name}")).await?;
        let (base, _) = url.rsplit_once('/').context("the database URL names a database")?;
        let own = format!("{base}/{name}");
        let server = Server::start(&self.arguments.server, &Store::Postgres(own.clone())).await?;
        Ok((server, admin, connect(&own).await?))
    }

    pub(crate) fn database_cpu(&self) -> f64 {
        if self.database.is_some() { postgres_cpu_seconds() } else { 0.0 }
    }

    /// The median time of one small durable commit on this store, in microseconds.
    async fn commit_us(&self) -> anyhow::Result<f64> {
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

/// What generator and receiver do without Everhook in between.
async fn raw_rate(requests: usize) -> anyhow::Result<f64> {
    // Long enough to be a rate.
    let requests = requests.max(20_000);
    let receiver = Receiver::start(requests, 1).await?;
    let load = Load {
        address: receiver.address.clone(),
        head: "POST /0 HTTP/1.1\r\nhost: receiver\r\ncontent-type: application/json".to_owned(),
        keys: false,
        body: payload,
        requests,
        clients: RAW_CLIENTS,
    };
    Ok(requests as f64 / load.run().await?)
}

pub(crate) fn message_load(server: &Server, requests: usize, clients: usize) -> Load {
    Load {
        address: server.address.clone(),
        head: format!(
            "POST /api/v1/app/bench/msg HTTP/1.1\r\nhost: server\r\ncontent-type: application/json\r\n\
             authorization: Bearer {}",
            server.key
        ),
        keys: true,
        body: |number| format!("{{\"eventType\":\"bench.event\",\"payload\":{}}}", payload(number)),
        requests,
        clients,
    }
}

async fn one_by_one(load: &Load, receiver: &Arc<Receiver>) -> anyhow::Result<(Vec<u64>, Vec<u64>)> {
    let mut stream = TcpStream::connect(&load.address).await?;
    stream.set_nodelay(true)?;
    let (mut buffer, mut accepted, mut received) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..load.requests {
        let request = load.request(number);
        let started = receiver.elapsed_ns();
        stream.write_all(request.as_bytes()).await?;
        let frame = read_frame(&mut stream, &mut buffer).await?.context("the server closed the connection")?;
        accepted.push(receiver.elapsed_ns() - started);
        if status(&buffer) != 202 {
            bail!("answered with {}", String::from_utf8_lossy(&buffer[..frame.end]));
        }
        buffer.drain(..frame.end);
        while receiver.received() <= number {
            tokio::task::yield_now().await;
        }
        received.push(receiver.at_ns(number).saturating_sub(started));
    }
    Ok((accepted, received))
}

/// Creates the application and its endpoints.
pub(crate) async fn prepare(server: &Server, receiver: &Receiver, endpoints: usize) -> anyhow::Result<()> {
    post(server, "/api/v1/app", r#"{"name":"bench","uid":"bench"}"#).await?;
    for endpoint in 0..endpoints {
        let body = format!("{{\"url\":\"http://{}/{endpoint}\"}}", receiver.address);
        post(server, "/api/v1/app/bench/endpoint", &body).await?;
    }
    Ok(())
}

async fn post(server: &Server, path: &str, body: &str) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(&server.address).await?;
    let (key, length) = (&server.key, body.len());
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: server\r\nauthorization: Bearer {key}\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut buffer = Vec::new();
    read_frame(&mut stream, &mut buffer).await?.context("the server closed the connection")?;
    if status(&buffer) != 201 {
        bail!("{path} was answered with {}", String::from_utf8_lossy(&buffer));
    }
    Ok(())
}

async fn connect(url: &str) -> anyhow::Result<tokio_postgres::Client> {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

async fn wal_bytes(admin: Option<&tokio_postgres::Client>) -> anyhow::Result<f64> {
    let Some(admin) = admin else { return Ok(0.0) };
    let row = admin.query_one("select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8", &[]).await?;
    Ok(row.get(0))
}

fn unique() -> usize {
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}
