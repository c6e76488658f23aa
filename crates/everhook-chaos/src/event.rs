//! What can go wrong.

use std::fmt;
use std::str::FromStr;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// kill -9 of a node.
    Kill,
    /// SIGSTOP of a node for twice the lease, then SIGCONT.
    Pause,
    /// SIGTERM of a node.
    Terminate,
    /// A connection is cut when a COMMIT arrives, which is not forwarded.
    CutBeforeCommit,
    /// A connection is cut after a COMMIT was carried out, before its reply.
    CutAfterCommit,
    /// A connection is cut after any statement was carried out, before its reply.
    CutReply,
    /// Every connection of a node is reset.
    Reset,
    /// Nothing of a node passes in either direction, and nobody is told.
    Blackhole,
    /// Everything of a node is late.
    Latency,
    /// `pg_terminate_backend` of half of all connections.
    Backends,
    /// PostgreSQL is stopped and started.
    Restart,
    /// PostgreSQL stands still for three leases.
    Stall,
    /// The primary crashes, the standby is promoted.
    Failover,
    /// The primary hangs for ever without closing a connection, the standby is promoted.
    SilentFailover,
    /// A failover manager is asked to change primary and standby.
    Switchover,
    /// The primary's failover manager stands still until the standby has been promoted, and a little longer.
    ManagerPause,
    /// The disk of an embedded store is full for a while.
    FullDisk,
}

/// Every kind with its name on the command line.
const NAMES: [(Event, &str); 17] = [
    (Event::Kill, "kill"),
    (Event::Pause, "pause"),
    (Event::Terminate, "terminate"),
    (Event::CutBeforeCommit, "cut-before-commit"),
    (Event::CutAfterCommit, "cut-after-commit"),
    (Event::CutReply, "cut-reply"),
    (Event::Reset, "reset"),
    (Event::Blackhole, "blackhole"),
    (Event::Latency, "latency"),
    (Event::Backends, "backends"),
    (Event::Restart, "restart"),
    (Event::Stall, "stall"),
    (Event::Failover, "failover"),
    (Event::SilentFailover, "silent-failover"),
    (Event::Switchover, "switchover"),
    (Event::ManagerPause, "manager-pause"),
    (Event::FullDisk, "full-disk"),
];

impl Event {
    /// What can happen to replicas on PostgreSQL.
    pub fn of_replicas() -> Vec<Event> {
        let others = [Event::Switchover, Event::ManagerPause, Event::FullDisk];
        NAMES.iter().map(|(event, _)| *event).filter(|event| !others.contains(event)).collect()
    }

    /// What can happen to replicas on a PostgreSQL under a failover manager.
    pub fn of_managed() -> Vec<Event> {
        let others = [Event::Restart, Event::Stall, Event::SilentFailover, Event::FullDisk];
        NAMES.iter().map(|(event, _)| *event).filter(|event| !others.contains(event)).collect()
    }

    /// What can happen to one process with an embedded store.
    pub fn of_embedded() -> Vec<Event> {
        vec![Event::Kill, Event::Pause, Event::Terminate, Event::FullDisk]
    }

    /// Whether it befalls the database as a whole; then nothing else happens, or nothing could be measured.
    pub fn is_of_database(self) -> bool {
        matches!(
            self,
            Event::Restart
                | Event::Stall
                | Event::Failover
                | Event::SilentFailover
                | Event::Switchover
                | Event::ManagerPause
                | Event::FullDisk
        )
    }

    /// Whether it befalls a node's process.
    pub fn is_of_process(self) -> bool {
        matches!(self, Event::Kill | Event::Pause | Event::Terminate)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(event, _)| event == self).map_or("?", |(_, name)| name);
        f.write_str(name)
    }
}

impl FromStr for Event {
    type Err = String;

    fn from_str(text: &str) -> Result<Event, String> {
        let found = NAMES.iter().find(|(_, name)| *name == text).map(|(event, _)| *event);
        found.ok_or_else(|| format!("unknown event; there are {}", NAMES.map(|(_, name)| name).join(", ")))
    }
}
