//! Watches the database from inside: who holds what, which sessions are closed, which deliveries were promised.
//!
//! Sees every call at the moment it takes effect, also those whose replies are lost.

use std::collections::{BTreeMap, BTreeSet};

use everhook_core::id::{MessageId, SessionId};
use everhook_core::task::{Task, TaskKey};
use everhook_store::lease::Appended;

/// What was seen.
#[derive(Debug, Default)]
pub(crate) struct Witness {
    holders: BTreeMap<(TaskKey, u32), SessionId>,
    closed: BTreeSet<SessionId>,
    /// Endpoints that were enabled when a message was accepted, by number.
    pub(crate) promised: BTreeMap<MessageId, Vec<usize>>,
    pub(crate) violations: Vec<String>,
}

impl Witness {
    pub(crate) fn holds(&mut self, session: SessionId, task: &Task) {
        self.holders.insert((task.key, task.epoch), session);
    }

    pub(crate) fn appended(&mut self, session: Option<SessionId>, appended: &[Appended], enabled: &[usize]) {
        for appended in appended {
            let Appended::Accepted { message, leased, .. } = appended else { continue };
            self.promised.insert(message.id, enabled.to_vec());
            for (leased, _) in leased {
                self.holders.extend(session.map(|session| ((leased.task.key, leased.task.epoch), session)));
            }
        }
    }

    pub(crate) fn closed(&mut self, session: SessionId) {
        self.closed.insert(session);
    }

    /// A session that is closed stays closed.
    pub(crate) fn renewed(&mut self, session: SessionId) {
        if self.closed.contains(&session) {
            self.violations.push(format!("session {session} was renewed after it was closed"));
        }
    }

    /// One holder: nothing is taken from a session that nobody closed.
    pub(crate) fn reclaimed(&mut self, session: SessionId, task: &Task) {
        let before = task.epoch.checked_sub(1).and_then(|epoch| self.holders.get(&(task.key, epoch)));
        if before.is_some_and(|before| !self.closed.contains(before)) {
            self.violations.push(format!("task {} was taken from an open session", task.key.id));
        }
        self.holds(session, task);
    }
}
