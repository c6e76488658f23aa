//! Deliberately broken promises, so that the tests can be tested.
//!
//! With the feature `mutants`, which only test builds have, a process breaks the one promise that `EVERHOOK_TEST_MUTANT` names.
//! Without it every question is answered "no" at compile time, and nothing is left of the hooks. Each mutant has a test that
//! runs a part of the suite with it and expects the suite to fail.

use std::borrow::Cow;

/// A promise to break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A client is answered before its message is committed.
    AcknowledgeBeforeCommit,
    /// A settlement counts whatever the epoch of its task is by now.
    SettleWithoutEpoch,
    /// A session that someone closed is renewed.
    RenewClosedSession,
    /// Tasks are taken from sessions past their lease that nobody closed.
    ReclaimFromOpenSession,
    /// A task that was abandoned is as good as new.
    ReclaimWithoutCrash,
    /// A session goes on after a commit under it was in doubt.
    KeepSessionAfterDoubt,
    /// A commit whose reply was lost is taken for done.
    DeliverInDoubt,
    /// A retry is due by the clock of the node.
    LocalClock,
    /// Nothing but a wake-up starts a lease.
    WakeupsOnly,
    /// A statement finds its row by the id alone.
    EnvironmentMissing,
    /// A batch is told of the end of a job as often as that is said.
    CountRepeatedEnd,
    /// A lease from a queue with a limit leaves no trace that others could count.
    LeaseWithoutGate,
}

/// Every mutant with its name in the environment.
pub const MUTANTS: [(Mutant, &str); 12] = [
    (Mutant::AcknowledgeBeforeCommit, "acknowledge-before-commit"),
    (Mutant::SettleWithoutEpoch, "settle-without-epoch"),
    (Mutant::RenewClosedSession, "renew-closed-session"),
    (Mutant::ReclaimFromOpenSession, "reclaim-from-open-session"),
    (Mutant::ReclaimWithoutCrash, "reclaim-without-crash"),
    (Mutant::KeepSessionAfterDoubt, "keep-session-after-doubt"),
    (Mutant::DeliverInDoubt, "deliver-in-doubt"),
    (Mutant::LocalClock, "local-clock"),
    (Mutant::WakeupsOnly, "wakeups-only"),
    (Mutant::EnvironmentMissing, "environment-missing"),
    (Mutant::CountRepeatedEnd, "count-repeated-end"),
    (Mutant::LeaseWithoutGate, "lease-without-gate"),
];

/// Whether this process breaks the promise.
#[cfg(not(feature = "mutants"))]
#[inline]
pub const fn is(_: Mutant) -> bool {
    false
}

/// Whether this process breaks the promise.
#[cfg(feature = "mutants")]
pub fn is(mutant: Mutant) -> bool {
    chosen() == Some(mutant)
}

/// A statement, without one of its conditions where the process breaks the promise behind it.
#[cfg(not(feature = "mutants"))]
#[inline]
pub const fn sql(text: &str) -> Cow<'_, str> {
    Cow::Borrowed(text)
}

/// A statement, without one of its conditions where the process breaks the promise behind it.
#[cfg(feature = "mutants")]
pub fn sql(text: &str) -> Cow<'_, str> {
    let broken = SQL.iter().filter(|(mutant, _, _)| is(*mutant)).find(|(_, whole, _)| text.contains(whole));
    broken.map_or(Cow::Borrowed(text), |(_, whole, broken)| Cow::Owned(text.replace(whole, broken)))
}

/// What the mutants of the SQL stores leave out, in the words of PostgreSQL and of SQLite.
#[cfg(feature = "mutants")]
const SQL: [(Mutant, &str, &str); 10] = [
    (Mutant::SettleWithoutEpoch, "and task.epoch = batch.epoch", ""),
    (Mutant::SettleWithoutEpoch, "and epoch = ?5;", "and ?5 = ?5;"),
    (
        Mutant::RenewClosedSession,
        "where id = :id\n    and closed_at is null\nreturning lease_until",
        "where id = :id\nreturning lease_until",
    ),
    (
        Mutant::RenewClosedSession,
        "set lease_until = ?2 + lease_us\nwhere id = ?1\n    and closed_at is null",
        "set lease_until = ?2 + lease_us\nwhere id = ?1",
    ),
    (
        Mutant::ReclaimFromOpenSession,
        "from everhook.session\n    where session.closed_at is null\n)",
        "from everhook.session\n    where session.closed_at is null and session.lease_until > everhook.now_us()\n)",
    ),
    (
        Mutant::ReclaimFromOpenSession,
        "where session.id = owner.id\n            and session.closed_at is null",
        // SQLite's own clock has milliseconds only: a second more, so that a lease that ended just now has ended for sure.
        "where session.id = owner.id and session.closed_at is null and session.lease_until > (unixepoch('subsec') + 1) * 1000000",
    ),
    (
        Mutant::EnvironmentMissing,
        "set state = :state\nwhere environment = :environment",
        "set state = :state\nwhere :environment = :environment",
    ),
    (Mutant::EnvironmentMissing, "set state = ?3\nwhere environment = ?1", "set state = ?3\nwhere ?1 = ?1"),
    (Mutant::LeaseWithoutGate, "(:gates)[array_position(:lane.id, task.lane)]", "null"),
    (Mutant::LeaseWithoutGate, "gate = ?5,", "gate = nullif(?5, ?5),"),
];

#[cfg(feature = "mutants")]
#[expect(clippy::disallowed_methods, reason = "a test chooses the mutant of a process that it starts")]
fn chosen() -> Option<Mutant> {
    static CHOSEN: std::sync::OnceLock<Option<Mutant>> = std::sync::OnceLock::new();
    *CHOSEN.get_or_init(|| {
        let name = std::env::var("EVERHOOK_TEST_MUTANT").ok()?;
        let found = MUTANTS.iter().find(|(_, known)| *known == name);
        Some(found.unwrap_or_else(|| panic!("there is no mutant {name:?}")).0)
    })
}
