//! One run: starts the processes, injects faults, heals, and checks.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use everhook_core::api_key::{ApiKey, KEY_RANDOM_BYTES};
use everhook_testkit::proxy::Proxy;
use tokio::sync::Mutex;

use crate::check::{self, Report, Seen};
use crate::cluster::{Cluster, Database, Standby};
use crate::event::Event;
use crate::history::History;
use crate::load::{Load, Target};
use crate::nemesis::{Deeds, Ends, Nemesis, supervise};
use crate::node::{Launch, Node};
use crate::patroni::Patroni;
use crate::receiver::{ENDPOINTS, Receivers};
use crate::state::{OPEN_TASKS, State, open_tasks_of_sqlite};
use crate::workshop::{MARK, Workshop};

const CLIENTS: usize = 8;
/// A dense retry schedule, because the receivers never fail for long.
const SCHEDULE: &str = "0.2,0.5,1,1,1,2,2,2,2,2,2,2,2,2,2";

/// The store of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Store {
    /// A primary and a standby started by this tool.
    Own(Standby),
    /// The same under a failover manager, which chooses the primary.
    Managed,
    /// A database in the server at this URL, which must not be stopped.
    Given(String),
    /// One process with an embedded store.
    Embedded,
}

/// The parameters of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub binary: PathBuf,
    pub store: Store,
    pub nodes: usize,
    /// The duration of the faults.
    pub span: Duration,
    pub events: Vec<Event>,
    /// The seed of all random choices.
    pub seed: u64,
    pub lease: Duration,
    /// The time within which all tasks must end after healing.
    pub patience: Duration,
    /// The approximate number of messages per second.
    pub rate: usize,
    /// Whether to print every event.
    pub print: bool,
    /// Whether to keep the logs for inspection.
    pub logs: Logs,
}

/// The lifetime of the logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logs {
    /// The logs are removed. For runs that are meant to fail.
    Dropped,
    /// The logs are kept if the run fails.
    KeptIfBad,
    /// The logs are always kept.
    Kept,
}

/// The processes that faults can be injected into.
pub struct Stage {
    /// The nodes. A fault holds the lock of its node.
    pub nodes: Vec<Mutex<Node>>,
    /// The proxy between each node and the database.
    pub proxies: Vec<Proxy>,
    /// The database; none for an embedded store.
    pub database: Option<Mutex<Database>>,
    pub standby: Standby,
    /// The disk of an embedded store.
    pub disk: Option<Disk>,
}

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub report: Report,
    /// The findings about jobs and batches.
    pub jobs: Report,
    pub deeds: Deeds,
    /// Nodes that ended by themselves and were restarted, by their last log line.
    pub ends: BTreeMap<String, usize>,
    /// Log lines about settlements rejected because the lease was lost.
    pub fenced: usize,
    /// Log lines about sessions closed by another node.
    pub closed: usize,
    /// Log lines about panics.
    pub panics: usize,
    /// True if the only fault was a stall of the database. No session may be closed then.
    pub only_stalls: bool,
}

impl Outcome {
    /// Returns whether all promises were kept and the tool worked without errors.
    pub fn is_good(&self) -> bool {
        let duplicated = self.report.duplicated + self.jobs.duplicated;
        let taken_over = self.only_stalls && (self.closed > 0 || duplicated > 0);
        self.report.is_good()
            && self.jobs.is_good()
            && self.panics == 0
            && self.deeds.troubles.is_empty()
            && !taken_over
    }

    /// The median and the longest takeover.
    pub fn takeover(&self) -> Option<(Duration, Duration)> {
        let mut takeovers = self.deeds.takeovers.clone();
        takeovers.sort();
        Some((*takeovers.get(takeovers.len() / 2)?, *takeovers.last()?))
    }
}

/// Runs a plan to its end.
pub async fn run(plan: &Plan) -> anyhow::Result<Outcome> {
    let mut workshop = Workshop::open()?;
    let outcome = run_in(plan, &workshop).await;
    let bad = !outcome.as_ref().is_ok_and(Outcome::is_good);
    if plan.logs == Logs::Kept || (plan.logs == Logs::KeptIfBad && bad) {
        workshop.keep();
        eprintln!("logs are kept in {}", workshop.folder().display());
    }
    outcome
}

async fn run_in(plan: &Plan, workshop: &Workshop) -> anyhow::Result<Outcome> {
    let history = Arc::new(History::new(plan.print));
    let stage = Arc::new(set_up(plan, workshop).await?);
    let receivers = Receivers::start(&history, plan.lease, plan.seed)?;
    let (target, endpoints) = begin(&stage, &receivers).await?;
    history.event(format_args!("everything runs"));
    let load = Load::start(target.clone(), &history, CLIENTS, plan.rate, plan.seed);
    let nemesis = Nemesis::new(&stage, &history, plan.lease, plan.seed);
    let ends = Ends::default();
    let (quiet, mistakes) = {
        let work = async {
            nemesis.rage(&plan.events, Instant::now() + plan.span).await;
            heal(&stage, &receivers, &history).await;
            history.event(format_args!("{} acknowledged; the load stops", load.acknowledged()));
            let mistakes = load.stop().await;
            (tokio::time::timeout(plan.patience, drain(&stage)).await.is_ok(), mistakes)
        };
        tokio::select! {
            ended = work => ended,
            () = supervise(&stage.nodes, &history, &ends) => (false, Vec::new()),
        }
    };
    history.event(format_args!("{}", if quiet { "all tasks have ended" } else { "some tasks do not end" }));
    let operations = history.operations();
    let shown = target.show_jobs(&operations).await;
    if let (Some(_), [node]) = (&stage.disk, &stage.nodes[..]) {
        node.lock().await.terminate().await?;
    }
    let state = read_state(&stage).await?;
    let (batches, receipts) = (history.batches(), history.receipts());
    let seen = Seen { operations: &operations, batches: &batches, receipts: &receipts, shown: &shown };
    let (report, jobs) = (check::check_messages(&seen, &state, &endpoints), check::check_jobs(&seen, &state));
    let ends = ends.into_inner().expect("nothing panics while it holds this lock");
    let mut outcome = Outcome { report, jobs, deeds: nemesis.deeds(), ends, ..Outcome::default() };
    outcome.deeds.troubles.extend(mistakes);
    outcome.only_stalls = plan.events == [Event::Stall];
    for node in &stage.nodes {
        let mut node = node.lock().await;
        node.terminate().await?;
        let log = node.log();
        outcome.fenced += log.matches("lost task ").count();
        outcome.closed += log.matches(": its lease had expired").count();
        outcome.panics += log.matches("panicked at").count();
    }
    if let Some(database) = &stage.database {
        database.lock().await.drop_given().await;
    }
    Ok(outcome)
}

async fn set_up(plan: &Plan, workshop: &Workshop) -> anyhow::Result<Stage> {
    let folder = workshop.folder();
    let lease = plan.lease.as_secs().max(1).to_string();
    let mut settings = vec![
        ("EVERHOOK_EGRESS_ALLOW", "127.0.0.0/8".to_owned()),
        ("EVERHOOK_LEASE_SECONDS", lease),
        ("EVERHOOK_RETRY_SCHEDULE", SCHEDULE.to_owned()),
        ("EVERHOOK_GRACE_SECONDS", "1".to_owned()),
        ("EVERHOOK_BOOTSTRAP_KEY", first_key().expose().to_owned()),
        ("EVERHOOK_STOP_DELAY_SECONDS", "0".to_owned()),
    ];
    let (database, disk, standby) = match &plan.store {
        Store::Own(standby) => (Some(Database::Own(Box::new(Cluster::start(folder, *standby).await?))), None, *standby),
        Store::Managed => (Some(Database::Managed(Box::new(Patroni::start(folder).await?))), None, Standby::Sync),
        Store::Given(url) => (Some(Database::create_in(url, plan.seed).await?), None, Standby::Sync),
        Store::Embedded => (None, Some(Disk::mount(folder).await?), Standby::Sync),
    };
    if let Some(disk) = &disk {
        settings.push(("EVERHOOK_DATA", disk.inside.display().to_string()));
    }
    let (mut nodes, mut proxies) = (Vec::new(), Vec::new());
    for number in 0..if database.is_some() { plan.nodes } else { 1 } {
        let mut settings = settings.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect::<Vec<_>>();
        if let Some(database) = &database {
            let proxy = Proxy::start(&database.addresses()).context("could not start a proxy")?;
            settings.push(("EVERHOOK_DATABASE".to_owned(), database.url(&proxy.addresses)));
            proxies.push(proxy);
        }
        let namespace = disk.as_ref().map(|disk| disk.holder);
        let launch = Launch { binary: plan.binary.clone(), folder: folder.to_owned(), settings, namespace };
        nodes.push(Mutex::new(Node::new(launch, number)?));
    }
    Ok(Stage { nodes, proxies, database: database.map(Mutex::new), standby, disk })
}

/// Starts the nodes. The first one starts alone, because it creates the schema and the first key.
async fn begin(stage: &Stage, receivers: &Receivers) -> anyhow::Result<(Target, Vec<String>)> {
    let mut addresses = Vec::new();
    for node in &stage.nodes {
        let mut node = node.lock().await;
        node.start()?;
        if addresses.is_empty() {
            node.greeted().await?;
        }
        addresses.push(node.address.clone());
    }
    Target::create(addresses, first_key().expose().to_owned(), &receivers.address, ENDPOINTS).await
}

/// The fixed key of every run. It only gives access to short-lived servers on this machine.
fn first_key() -> ApiKey {
    ApiKey::generate([7; KEY_RANDOM_BYTES])
}

async fn heal(stage: &Stage, receivers: &Receivers, history: &History) {
    history.event(format_args!("everything heals"));
    stage.proxies.iter().for_each(Proxy::heal);
    receivers.heal();
}

/// Waits until no task is open.
async fn drain(stage: &Stage) {
    // An error does not end the wait, because the database may be recovering.
    while !matches!(open_tasks(stage).await, Ok(0)) {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn open_tasks(stage: &Stage) -> anyhow::Result<i64> {
    match (&stage.database, &stage.disk) {
        (Some(database), _) => {
            let client = database.lock().await.connect().await?;
            Ok(client.query_one(&OPEN_TASKS.replace("from ", "from everhook."), &[]).await?.get(0))
        }
        (None, Some(disk)) => open_tasks_of_sqlite(&disk.copy()?),
        (None, None) => Ok(0),
    }
}

async fn read_state(stage: &Stage) -> anyhow::Result<State> {
    match (&stage.database, &stage.disk) {
        (Some(database), _) => State::of_postgres(&database.lock().await.connect().await?).await,
        (None, Some(disk)) => State::of_sqlite(&disk.copy()?),
        (None, None) => Ok(State::default()),
    }
}

/// A small disk for an embedded store: a tmpfs in a mount namespace that a sleeping process keeps alive.
pub struct Disk {
    holder: u32,
    _process: tokio::process::Child,
    /// The folder as seen by processes in the namespace.
    inside: PathBuf,
    /// The folder as seen by this process.
    outside: PathBuf,
}

impl Disk {
    async fn mount(folder: &std::path::Path) -> anyhow::Result<Disk> {
        const MOUNT: &str =
            "mount -t tmpfs -o size=48m tmpfs \"$1\" && echo mounted >\"$1/mounted\" && exec sleep 86400";
        let inside = folder.join("disk");
        std::fs::create_dir(&inside)?;
        let mut command = tokio::process::Command::new("unshare");
        command.args(["--mount", "sh", "-c", MOUNT, "disk"]).arg(&inside).env(MARK, folder).kill_on_drop(true);
        let process = command.spawn().context("could not make a mount namespace; this needs root")?;
        let holder = process.id().context("it runs")?;
        let outside = PathBuf::from(format!("/proc/{holder}/root{}", inside.display()));
        for _ in 0..1_200 {
            if outside.join("mounted").is_file() {
                return Ok(Disk { holder, _process: process, inside, outside });
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        anyhow::bail!("could not mount a small disk; this needs root")
    }

    /// Copies the database, because SQLite would resolve the path outside the namespace. The copy is consistent if no
    /// process writes.
    fn copy(&self) -> anyhow::Result<PathBuf> {
        let copy = self.inside.with_file_name("copy.db");
        let _ = std::fs::remove_file(copy.with_extension("db-shm"));
        for end in ["db", "db-wal"] {
            let _ = std::fs::remove_file(copy.with_extension(end));
            let from = self.outside.join("everhook").with_extension(end);
            if from.is_file() {
                std::fs::copy(from, copy.with_extension(end))?;
            }
        }
        Ok(copy)
    }

    /// Fills the disk completely.
    pub(crate) fn fill(&self) -> anyhow::Result<()> {
        use std::io::Write;
        let mut ballast = std::fs::File::create(self.outside.join("ballast"))?;
        for size in [64 * 1024, 4096, 1] {
            while ballast.write_all(&vec![0; size]).is_ok() {}
        }
        Ok(())
    }

    /// Frees the disk again.
    pub(crate) fn free(&self) -> anyhow::Result<()> {
        Ok(std::fs::remove_file(self.outside.join("ballast"))?)
    }
}

/// The number of faults of all kinds.
pub fn count(deeds: &Deeds) -> usize {
    deeds.events.values().sum()
}

/// Describes an outcome as text.
pub fn describe(plan: &Plan, outcome: &Outcome) -> String {
    let Outcome { report, jobs, deeds, ends, fenced, closed, panics, .. } = outcome;
    let ended: usize = ends.values().sum();
    let events = deeds.events.iter().map(|(event, count)| format!("{event} {count}")).collect::<Vec<_>>().join(", ");
    let mut text = format!("{report}\njobs:\n{jobs}\n");
    text += &format!("events        {:>8}   ({events})\n", count(deeds));
    if let Some((median, worst)) = outcome.takeover() {
        let (median, worst, lease) = (median.as_secs_f64(), worst.as_secs_f64(), plan.lease.as_secs_f64());
        let count = deeds.takeovers.len();
        text +=
            &format!("takeover after kill -9, lease {lease} s: p50 {median:.2} s, worst {worst:.2} s, of {count}\n");
    }
    text += &format!(
        "sessions closed by others {closed}, writes fenced off {fenced}, nodes that ended {ended}, panics {panics}\n"
    );
    for (reason, count) in ends {
        text += &format!("    {count} ended: {reason}\n");
    }
    for trouble in &deeds.troubles {
        text += &format!("trouble: {trouble}\n");
    }
    text
}
