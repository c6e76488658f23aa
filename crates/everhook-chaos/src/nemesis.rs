//! Injects faults chosen by the seed.
//!
//! Three loops run at the same time: one for processes, one for connections, and one for the database. The first and
//! the third exclude each other, so that takeovers are measured while the database works.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex as StdMutex;
use std::time::{Duration, Instant};

use everhook_testkit::proxy::{Cut, Proxy};
use everhook_testkit::rng::Rng;
use tokio::sync::{Mutex, RwLock};

use crate::cluster::{Database, Standby};
use crate::event::Event;
use crate::history::History;
use crate::run::Stage;

/// The time beyond the lease after which a missing takeover is reported as an error.
const TAKEOVER_SLACK: Duration = Duration::from_secs(15);

/// The record of injected faults.
#[derive(Clone, Debug, Default)]
pub struct Deeds {
    /// The number of faults of each kind.
    pub events: BTreeMap<Event, usize>,
    /// The time from each kill until the node's tasks were taken over.
    pub takeovers: Vec<Duration>,
    /// Errors of the tool or the product.
    pub troubles: Vec<String>,
}

pub struct Nemesis {
    stage: Arc<Stage>,
    history: Arc<History>,
    deeds: StdMutex<Deeds>,
    /// Locked for writing while the database is disturbed.
    calm: RwLock<()>,
    lease: Duration,
    seed: u64,
}

impl Nemesis {
    pub fn new(stage: &Arc<Stage>, history: &Arc<History>, lease: Duration, seed: u64) -> Nemesis {
        Nemesis {
            stage: Arc::clone(stage),
            history: Arc::clone(history),
            deeds: StdMutex::default(),
            calm: RwLock::new(()),
            lease,
            seed,
        }
    }

    pub fn deeds(&self) -> Deeds {
        self.deeds.lock().expect("nothing panics while it holds this lock").clone()
    }

    /// Injects these faults until the time is over. Each loop completes its current fault.
    pub async fn rage(&self, events: &[Event], until: Instant) {
        let of = |want: fn(Event) -> bool| events.iter().copied().filter(|event| want(*event)).collect::<Vec<_>>();
        let processes = of(Event::is_of_process);
        let databases = of(Event::is_of_database);
        let networks = of(|event| !event.is_of_process() && !event.is_of_database());
        let only_database = processes.is_empty() && networks.is_empty();
        let rest = if only_database { (300, 1200) } else { (4000, 9000) };
        tokio::join!(
            self.hand("processes", &processes, (100, 600), until),
            self.hand("connections", &networks, (50, 350), until),
            self.hand("database", &databases, rest, until),
        );
    }

    async fn hand(&self, name: &str, events: &[Event], rest_ms: (u64, u64), until: Instant) {
        if events.is_empty() {
            return;
        }
        let random = Rng::of(self.seed, name);
        while Instant::now() < until {
            let (low, high) = (Duration::from_millis(rest_ms.0), Duration::from_millis(rest_ms.1));
            tokio::time::sleep(random.between(low, high)).await;
            let event = *random.pick(events);
            let done = self.perform(event, &random).await;
            let mut deeds = self.deeds.lock().expect("nothing panics while it holds this lock");
            match done {
                Ok(()) => *deeds.events.entry(event).or_default() += 1,
                Err(error) => {
                    self.history.event(format_args!("trouble with {event}: {error:#}"));
                    deeds.troubles.push(format!("{event}: {error:#}"));
                }
            }
        }
    }

    async fn perform(&self, event: Event, random: &Rng) -> anyhow::Result<()> {
        let at = random.below(self.stage.nodes.len());
        match event {
            Event::Kill => self.kill(at, random).await,
            Event::Pause => self.pause(at).await,
            Event::Terminate => self.terminate(at).await,
            Event::CutBeforeCommit => self.cut(at, Cut::BeforeCommit).await,
            Event::CutAfterCommit => self.cut(at, Cut::AfterCommit).await,
            Event::CutReply => self.cut(at, Cut::Reply).await,
            Event::Reset => {
                self.history.event(format_args!("resets the connections of node {at}"));
                self.proxy(at).reset();
                Ok(())
            }
            Event::Blackhole => self.blackhole(at, random).await,
            Event::Latency => self.latency(at, random).await,
            Event::Backends => self.backends().await,
            Event::Restart
            | Event::Stall
            | Event::Failover
            | Event::SilentFailover
            | Event::Switchover
            | Event::ManagerPause => self.database(event, random).await,
            Event::FullDisk => self.full_disk(random).await,
        }
    }

    async fn kill(&self, at: usize, random: &Rng) -> anyhow::Result<()> {
        let _calm = self.calm.read().await;
        let mut node = self.stage.nodes[at].lock().await;
        let Some(id) = node.id() else { return Ok(()) };
        self.history.event(format_args!("kills node {at}, process {id}"));
        node.kill().await?;
        let killed = Instant::now();
        if random.once_in(2) {
            node.start()?;
        }
        if let Some(taken) = self.takeover(id, killed).await? {
            self.history.event(format_args!("the tasks of node {at} were taken over after {} ms", taken.as_millis()));
            self.deeds.lock().expect("nothing panics while it holds this lock").takeovers.push(taken);
        }
        if node.id().is_none() {
            node.start()?;
        }
        Ok(())
    }

    /// Measures how long a dead process still holds tasks; returns none if it held none.
    async fn takeover(&self, process: u32, killed: Instant) -> anyhow::Result<Option<Duration>> {
        const HELD: &str = "select count(*) from everhook.task join everhook.session on session.id = task.owner
            where task.state = 1 and session.node like '%:' || $1";
        let Some(database) = &self.stage.database else { return Ok(None) };
        let client = database.lock().await.connect().await?;
        let process = process.to_string();
        let held = async || anyhow::Ok(client.query_one(HELD, &[&process]).await?.get::<_, i64>(0));
        if held().await? == 0 {
            return Ok(None);
        }
        while held().await? > 0 {
            if killed.elapsed() > self.lease + TAKEOVER_SLACK {
                anyhow::bail!("the tasks of process {process} were not taken over within {:?}", killed.elapsed());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(Some(killed.elapsed()))
    }

    async fn pause(&self, at: usize) -> anyhow::Result<()> {
        let _calm = self.calm.read().await;
        let node = self.stage.nodes[at].lock().await;
        self.history.event(format_args!("pauses node {at}"));
        node.signal("STOP").await?;
        tokio::time::sleep(self.lease * 2).await;
        self.history.event(format_args!("lets node {at} go on"));
        node.signal("CONT").await
    }

    async fn terminate(&self, at: usize) -> anyhow::Result<()> {
        let _calm = self.calm.read().await;
        let mut node = self.stage.nodes[at].lock().await;
        self.history.event(format_args!("stops node {at} in good order"));
        let stopped = node.terminate().await;
        node.start()?;
        stopped
    }

    /// Cuts one connection at the chosen point, if a connection reaches it soon.
    async fn cut(&self, at: usize, cut: Cut) -> anyhow::Result<()> {
        const SOON: Duration = Duration::from_millis(500);
        let (proxy, begun) = (self.proxy(at), Instant::now());
        let fired = proxy.fired();
        proxy.arm(cut);
        while proxy.fired() == fired && begun.elapsed() < SOON {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        if proxy.fired() > fired {
            self.history.event(format_args!("cut a connection of node {at}: {cut:?}"));
        }
        Ok(())
    }

    async fn blackhole(&self, at: usize, random: &Rng) -> anyhow::Result<()> {
        self.history.event(format_args!("holds everything between node {at} and the database"));
        let proxy = self.proxy(at);
        proxy.hold(true);
        tokio::time::sleep(random.between(self.lease / 4, self.lease * 2)).await;
        if random.once_in(2) {
            // Half of the time the connections are reset; otherwise the held data arrives late.
            proxy.reset();
        }
        proxy.hold(false);
        Ok(())
    }

    async fn latency(&self, at: usize, random: &Rng) -> anyhow::Result<()> {
        let latency = random.between(Duration::from_millis(2), Duration::from_millis(60));
        self.history.event(format_args!("node {at} is {} ms further from the database", latency.as_millis()));
        self.proxy(at).delay(latency);
        tokio::time::sleep(random.between(self.lease / 4, self.lease)).await;
        self.proxy(at).delay(Duration::ZERO);
        Ok(())
    }

    async fn backends(&self) -> anyhow::Result<()> {
        const HALF: &str = "select count(pg_terminate_backend(pid)) from pg_stat_activity
            where datname = current_database() and application_name = 'everhook' and random() < 0.5";
        // The loop for the database may have stopped it at this moment.
        let Ok(_calm) = self.calm.try_read() else { return Ok(()) };
        let Some(database) = &self.stage.database else { return Ok(()) };
        let client = database.lock().await.connect().await?;
        let ended: i64 = client.query_one(HALF, &[]).await?.get(0);
        self.history.event(format_args!("ended {ended} connections on the server"));
        Ok(())
    }

    async fn database(&self, event: Event, random: &Rng) -> anyhow::Result<()> {
        let _alone = self.calm.write().await;
        let Some(database) = &self.stage.database else { return Ok(()) };
        let mut database = database.lock().await;
        self.history.event(format_args!("{event} begins"));
        // A lagging standby tests that changes it has not received were not acknowledged.
        let lagging = self.stage.standby == Standby::Async || random.once_in(2);
        let lag = if lagging {
            random.between(Duration::from_millis(100), Duration::from_millis(800))
        } else {
            Duration::ZERO
        };
        match (&mut *database, event) {
            (Database::Own(cluster), Event::Restart) => cluster.restart().await?,
            (Database::Own(cluster), Event::Stall) => cluster.stall(self.lease * 3).await?,
            (Database::Own(cluster), Event::SilentFailover) => cluster.fail_over(lag, true).await?,
            (Database::Own(cluster), Event::Failover) => cluster.fail_over(lag, false).await?,
            (Database::Managed(patroni), Event::Failover) => patroni.fail_over(lag).await?,
            (Database::Managed(patroni), Event::Switchover) => patroni.switch_over().await?,
            (Database::Managed(patroni), Event::ManagerPause) => patroni.pause_manager(self.lease * 2).await?,
            _ => anyhow::bail!("this database does not support the fault"),
        }
        drop(database);
        self.history.event(format_args!("{event} is over"));
        // All nodes must be steady again before the next takeover is measured.
        tokio::time::sleep(self.lease * 2).await;
        Ok(())
    }

    async fn full_disk(&self, random: &Rng) -> anyhow::Result<()> {
        let Some(disk) = &self.stage.disk else { return Ok(()) };
        self.history.event(format_args!("fills the disk"));
        disk.fill()?;
        tokio::time::sleep(random.between(Duration::from_millis(300), self.lease * 2)).await;
        disk.free()?;
        self.history.event(format_args!("the disk has room again"));
        Ok(())
    }

    fn proxy(&self, at: usize) -> &Proxy {
        &self.stage.proxies[at]
    }
}

/// Nodes that ended by themselves, counted by their last log line.
pub type Ends = StdMutex<BTreeMap<String, usize>>;

/// Restarts nodes that ended by themselves, until it is dropped.
pub async fn supervise(nodes: &[Mutex<crate::node::Node>], history: &History, ends: &Ends) {
    loop {
        for (number, node) in nodes.iter().enumerate() {
            // A locked node is being disturbed, and its holder restarts it.
            let Ok(mut node) = node.try_lock() else { continue };
            if let Ok(Some(reason)) = node.keep() {
                history.event(format_args!("node {number} had ended by itself: {reason}"));
                *ends.lock().expect("nothing panics while it holds this lock").entry(reason).or_default() += 1;
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
