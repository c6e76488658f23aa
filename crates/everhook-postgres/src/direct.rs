//! Append in one round trip, where that can be: planned from what this node remembers, checked by the statement that writes.
//!
//! It serves the usual case: known endpoints, free lanes, room on this node, keys that nobody has. Whatever else there is
//! goes the long way, in `append`; a guess that was wrong has written nothing.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use everhook_core::id::{EnvironmentId, LaneId};
use everhook_core::message::{Message, Rest};
use everhook_core::time::Timestamp;
use everhook_store::append::{PlannedTask, accepted, plan};
use everhook_store::lease::{Append, Appended, NewMessage};
use everhook_store::slots::Slot;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

use crate::columns::{KeyColumns, MessageColumns, TaskColumns};
use crate::endpoints::{self, AppKey};
use crate::error::Fault;
use crate::keys::{Claims, row_key};
use crate::rows::Reader;
use crate::sql;
use crate::store::PostgresStore;

/// How many batches go the long way after a guess was wrong: what made it wrong, such as a backlog, lasts a while.
const LONG_WAYS: usize = 16;

/// Whether to guess.
#[derive(Debug, Default)]
pub(crate) struct Guesses {
    long_ways: AtomicUsize,
}

impl Guesses {
    fn is_worth_it(&self) -> bool {
        let one_less = |left: usize| left.checked_sub(1);
        self.long_ways.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_err()
    }

    fn was_wrong(&self) {
        self.long_ways.store(LONG_WAYS, Ordering::Relaxed);
    }
}

/// A batch as it would be written if the guess is right.
struct Guess<'a> {
    applications: Vec<(AppKey, i64)>,
    lanes: BTreeSet<(EnvironmentId, LaneId)>,
    claims: Claims<'a>,
    tasks: Vec<Vec<PlannedTask>>,
}

impl PostgresStore {
    /// Appends in one round trip; none if this batch has to go the long way.
    pub(crate) async fn append_direct(&self, append: &Append) -> Result<Option<Vec<Appended>>, Fault> {
        if !self.guesses.is_worth_it() {
            return Ok(None);
        }
        let Some(guess) = self.guess(append) else { return Ok(None) };
        let written = match self.write_guess(append, &guess).await {
            Err(Fault::Commit(error)) if error.code() == Some(&SqlState::DIVISION_BY_ZERO) => None,
            written => written?,
        };
        let Some(now) = written else {
            self.guesses.was_wrong();
            return Ok(None);
        };
        let answer = |(new, tasks): (&NewMessage, Vec<PlannedTask>)| {
            let message = Message { created_at: now, ..new.message.clone() };
            let tasks = tasks.into_iter().map(|mut planned| {
                planned.task.due_at = now;
                planned
            });
            accepted(Arc::new(message), tasks.collect())
        };
        Ok(Some(append.messages.iter().zip(guess.tasks).map(answer).collect()))
    }

    fn guess<'a>(&self, append: &'a Append) -> Option<Guess<'a>> {
        let mut guess =
            Guess { applications: Vec::new(), lanes: BTreeSet::new(), claims: Claims::new(), tasks: Vec::new() };
        for new in &append.messages {
            // Who has a slot is decided by what is in the table, under a lock. The one statement writes no `rest`.
            if new.once.is_some() || new.message.rest != Rest::default() {
                return None;
            }
            let key = (new.environment, new.message.application);
            let set = self.cache.peek(key.0, key.1)?;
            if new.revision.is_some_and(|found_at| found_at != set.revision) {
                return None;
            }
            match guess.applications.iter().find(|(known, _)| *known == key) {
                Some((_, revision)) if *revision != set.revision => return None,
                Some(_) => {}
                None => guess.applications.push((key, set.revision)),
            }
            for claim in &new.keys {
                // Of two equal ones in a batch the second has to be told so.
                if guess.claims.insert(row_key(new.environment, claim), (claim, new.message.id.0)).is_some() {
                    return None;
                }
            }
            let take_slot = |lane| Slot::reserve(&append.fast.as_ref()?.slots, lane);
            let at = new.message.id.0.timestamp();
            let tasks = plan(new.environment, &new.message, &set, &self.ids, at, new.deliver_at, take_slot);
            // What waits touches its lane, which takes more than a guess.
            if tasks.iter().any(|planned| planned.slot.is_none()) {
                return None;
            }
            guess.lanes.extend(tasks.iter().map(|planned| (new.environment, planned.task.lane)));
            guess.tasks.push(tasks);
        }
        Some(guess)
    }

    /// Writes if the guess is right; answers the store's time, or none if it was wrong.
    async fn write_guess(&self, append: &Append, guess: &Guess<'_>) -> Result<Option<Timestamp>, Fault> {
        let (environments, applications) = endpoints::columns(guess.applications.iter().map(|(key, _)| key));
        let revisions: Vec<i64> = guess.applications.iter().map(|(_, revision)| *revision).collect();
        let (lane_environments, lanes) = crate::append::lane_columns(&guess.lanes);
        let keys = KeyColumns::new(&guess.claims);
        let messages: Vec<_> = append.messages.iter().map(|new| (new.environment, &new.message)).collect();
        let messages = MessageColumns::new(&messages);
        let mut tasks = TaskColumns::default();
        for planned in guess.tasks.iter().flatten() {
            tasks.push(&planned.task, append.fast.as_ref().map(|fast| &fast.session));
        }
        let mut params: Vec<&(dyn ToSql + Sync)> =
            vec![&environments, &applications, &revisions, &lane_environments, &lanes];
        params.extend(keys.params());
        params.extend(messages.params());
        params.extend(tasks.params_due_now());
        let rows = self.database.write(&sql::APPEND_DIRECT, &params).await?;
        let row = rows.first().ok_or(Fault::Contended("an append gave no answer"))?;
        let mut row = Reader::new(row, "append");
        Ok(if row.get("yes")? { Some(row.time("now")?) } else { None })
    }
}
