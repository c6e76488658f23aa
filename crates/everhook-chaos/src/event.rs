//! The kinds of faults.

use std::fmt;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// `kill -9` of a node.
    Kill,
    /// SIGSTOP of a node for twice the lease, then SIGCONT.
    Pause,
    /// SIGTERM of a node.
    Terminate,
    /// A connection is cut when a COMMIT arrives, which is not forwarded.
    CutBeforeCommit,
    /// A connection is cut after a COMMIT was executed, before its reply.
    CutAfterCommit,
    /// A connection is cut after any statement was executed, before its reply.
    CutReply,
    /// All connections of a node are reset.
    Reset,
    /// No data of a node passes in either direction, and its connections stay open.
    Blackhole,
    /// All data of a node is delayed.
    Latency,
    /// `pg_terminate_backend` for half of all connections.
    Backends,
    /// PostgreSQL is stopped and started.
    Restart,
    /// PostgreSQL is paused for three leases.
    Stall,
    /// The primary crashes and the standby is promoted.
    Failover,
    /// The primary hangs for ever without closing a connection, and the standby is promoted.
    SilentFailover,
    /// The failover manager switches primary and standby on request.
    Switchover,
    /// The primary's failover manager is paused until the standby has been promoted, and a little longer.
    ManagerPause,
    /// The disk of an embedded store is full for a while.
    FullDisk,
}

/// The kinds with their names on the command line.
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
    /// The faults for replicas on PostgreSQL.
    pub fn of_replicas() -> Vec<Event> {
        let others = [Event::Switchover, Event::ManagerPause, Event::FullDisk];
        NAMES.iter().map(|(event, _)| *event).filter(|event| !others.contains(event)).collect()
    }

    /// The faults for replicas on a PostgreSQL under a failover manager.
    pub fn of_managed() -> Vec<Event> {
        let others = [Event::Restart, Event::Stall, Event::SilentFailover, Event::FullDisk];
        NAMES.iter().map(|(event, _)| *event).filter(|event| !others.contains(event)).collect()
    }

    /// The faults for one process with an embedded store.
    pub fn of_embedded() -> Vec<Event> {
        vec![Event::Kill, Event::Pause, Event::Terminate, Event::FullDisk]
    }

    /// Returns whether the fault affects the whole database. It then runs alone, because takeovers cannot be measured
    /// meanwhile.
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

    /// Returns whether the fault affects the process of a node.
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
        found.ok_or_else(|| format!("unknown event; the events are {}", NAMES.map(|(_, name)| name).join(", ")))
    }
}
