//! Opens, renews, retires and closes the node's sessions.
//!
//! One renewal keeps all leases of a session alive. Only [`Sessions`] opens and closes the node's sessions. Other
//! components ask for the current [`Session`] and keep their `Arc` for as long as they hold tasks leased under it.
//!
//! If a commit is in doubt because its reply was lost, the session may own tasks that this node does not know. The
//! session is then *retired*: it takes no new work, and is renewed until all known tasks have ended. Then it is closed,
//! and the sweep reclaims the unknown tasks.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everhook_core::id::SessionId;
use everhook_core::role::Role;
use everhook_store::error::StoreError;
use everhook_store::ids::Ids;
use everhook_store::lease::{NewSession, Renewed};
use everhook_store::store::Store;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::clock::Clock;

#[derive(Debug)]
pub struct Session {
    pub id: SessionId,
    /// The time at which the last successful renewal was *sent*, in microseconds of the node's monotonic clock. The
    /// store received it later, so the lease in the store expires no earlier than a lease counted from here.
    renewed_us: AtomicU64,
    retired: AtomicBool,
    /// Cancelled when the store reports that another node closed the session. Requests under the session must be
    /// aborted then.
    closed: CancellationToken,
    /// Wakes the loop of `Sessions`.
    nudge: Arc<Notify>,
}

impl Session {
    /// Waits until another node has closed the session.
    pub async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// Returns whether another node has closed the session.
    pub fn is_closed(&self) -> bool {
        self.closed.is_cancelled()
    }

    /// Takes no new work under this session, because it owns or may own tasks that this node will not settle.
    pub(crate) fn retire(&self, why: &str) {
        if !self.retired.swap(true, Ordering::AcqRel) {
            warn!(session.id = %self.id, "retired session {}: {why}", self.id);
            self.nudge.notify_one();
        }
    }

    fn renewed(&self) -> Duration {
        Duration::from_micros(self.renewed_us.load(Ordering::Acquire))
    }
}

/// The node's name in the session table.
#[derive(Clone, Debug)]
pub struct NodeName {
    /// Host name and process id, for operators.
    pub node: String,
    pub version: String,
}

/// The sessions of this node.
pub struct Sessions {
    store: Arc<dyn Store>,
    ids: Arc<Ids>,
    clock: Arc<Clock>,
    name: NodeName,
    role: Role,
    lease: Duration,
    state: Mutex<SessionState>,
    /// Wakes the loop early after a session was retired.
    nudge: Arc<Notify>,
}

#[derive(Debug, Default)]
struct SessionState {
    current: Option<Arc<Session>>,
    retired: Vec<Arc<Session>>,
    /// The start of the current period of renewals without a gap. The node may close other sessions only after one
    /// whole lease of such renewals.
    steady_since: Option<Duration>,
}

impl Sessions {
    /// Creates the keeper without a session. The first call of `step` opens one.
    pub fn new(
        store: Arc<dyn Store>,
        ids: Arc<Ids>,
        clock: Arc<Clock>,
        name: NodeName,
        role: Role,
        lease: Duration,
    ) -> Sessions {
        Sessions { store, ids, clock, name, role, lease, state: Mutex::default(), nudge: Arc::default() }
    }

    /// The session for new work: neither retired, nor closed, nor too long without a renewal.
    pub fn current(&self) -> Option<Arc<Session>> {
        let current = self.lock().current.clone()?;
        (!current.retired.load(Ordering::Acquire) && self.may_send(&current)).then_some(current)
    }

    /// Checks before each request that the session was renewed recently enough. The margin of an eighth of the lease
    /// leaves time to start the request before another node could take over.
    pub fn may_send(&self, session: &Session) -> bool {
        !session.is_closed() && self.clock.elapsed().saturating_sub(session.renewed()) < self.lease - self.lease / 8
    }

    /// Returns how long this node has renewed without a gap, or none if that is less than one lease. A node without
    /// this record must not close other sessions: after an outage of the store, all sessions look expired although
    /// their nodes are alive.
    pub fn steady(&self) -> Option<Duration> {
        self.current()?;
        let steady = self.clock.elapsed().saturating_sub(self.lock().steady_since?);
        (steady >= self.lease).then_some(steady)
    }

    /// Takes no new work under `session`, because a commit under it is in doubt.
    pub fn retire(&self, session: &Session) {
        session.retire("a write under it is in doubt");
    }

    /// Maintains the sessions until `stop` is cancelled. Opens the first session as soon as the store responds.
    pub async fn run(&self, stop: CancellationToken) {
        let renew_every = self.lease / 4;
        // After a failure less of the lease is left, so the node retries sooner.
        let retry_every = self.lease / 16;
        loop {
            let steady = self.step().await;
            let pause = if steady { renew_every } else { retry_every };
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.nudge.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Renews all sessions, replaces a retired or closed current session, and closes retired sessions without tasks.
    /// Returns true if all calls succeeded.
    pub async fn step(&self) -> bool {
        let (current, retired) = {
            let state = self.lock();
            (state.current.clone(), state.retired.clone())
        };
        let mut well = true;
        for session in current.iter().chain(&retired).filter(|session| !session.is_closed()) {
            well &= self.renew(session).await;
        }
        let usable = |session: &Arc<Session>| !session.is_closed() && !session.retired.load(Ordering::Acquire);
        if !current.as_ref().is_some_and(usable) {
            well &= self.open().await;
        }
        // `close_idle` counts references to find sessions without tasks, so these clones must not exist any more.
        drop((current, retired));
        self.close_idle().await && well
    }

    /// Closes all sessions. Other nodes reclaim the remaining tasks, or this node does after a restart.
    pub async fn close_all(&self) {
        let sessions = {
            let mut state = self.lock();
            let current = state.current.take();
            state.retired.drain(..).chain(current).collect::<Vec<_>>()
        };
        for session in sessions {
            if let Err(error) = self.store.close_session(session.id).await {
                warn!(session.id = %session.id, error = &error as &dyn std::error::Error, "could not close session");
            }
        }
    }

    async fn renew(&self, session: &Session) -> bool {
        let before = self.clock.elapsed();
        match self.store.renew_session(session.id).await {
            Ok(renewed @ (Renewed::Open(now) | Renewed::Moved(now))) => {
                self.clock.sync(now, before);
                self.note_renewal(session, before);
                if matches!(renewed, Renewed::Moved(_)) {
                    // A failover may lose the last commits. Tasks that this node has settled may then be leased to this
                    // session again, and no component here knows them. Closing the session makes them reclaimable.
                    session.retire("the database failed over and may have lost the last commits");
                }
                true
            }
            Ok(Renewed::Closed) => {
                error!(session.id = %session.id, "session {} was closed by another node: aborting", session.id);
                session.closed.cancel();
                false
            }
            Err(error) => {
                warn!(session.id = %session.id, error = &error as &dyn std::error::Error, "could not renew session");
                false
            }
        }
    }

    fn note_renewal(&self, session: &Session, before: Duration) {
        // Other nodes may have closed sessions during a gap longer than the lease. The node must be steady again before
        // it closes any itself.
        let gap = before.saturating_sub(session.renewed()) > self.lease;
        session.renewed_us.store(u64::try_from(before.as_micros()).unwrap_or(u64::MAX), Ordering::Release);
        if gap {
            self.lock().steady_since = Some(before);
        }
    }

    async fn open(&self) -> bool {
        let before = self.clock.elapsed();
        let id = SessionId(self.ids.next(self.clock.now()));
        let NodeName { node, version } = self.name.clone();
        let session = NewSession { id, node, role: self.role, version, lease: self.lease, takes: None };
        match self.store.open_session(session).await {
            Ok(now) => {
                self.clock.sync(now, before);
                self.install(id, before);
                info!(session.id = %id, "opened session {id}");
                true
            }
            Err(error) => {
                // If the store did commit the session, no node renews it, and it is closed when its lease expires.
                warn!(error = &error as &dyn std::error::Error, "could not open a session");
                false
            }
        }
    }

    fn install(&self, id: SessionId, before: Duration) {
        let session = Arc::new(Session {
            id,
            renewed_us: AtomicU64::new(u64::try_from(before.as_micros()).unwrap_or(u64::MAX)),
            retired: AtomicBool::new(false),
            closed: CancellationToken::new(),
            nudge: Arc::clone(&self.nudge),
        });
        let mut state = self.lock();
        state.steady_since.get_or_insert(before);
        if let Some(old) = state.current.replace(session) {
            // The renewals had a gap if another node closed the old session, or if its last renewal was sent more than
            // a lease ago. In the second case the database may have been down for all nodes. The fast opening of this
            // session does not prove that the others had time to renew.
            if old.is_closed() || before.saturating_sub(old.renewed()) > self.lease {
                state.steady_since = Some(before);
            }
            if !old.is_closed() {
                state.retired.push(old);
            }
        }
    }

    /// Closes retired sessions whose tasks have all ended. Each task holds a reference, so a count of one means that
    /// only this list refers to the session.
    async fn close_idle(&self) -> bool {
        let idle = {
            let mut state = self.lock();
            state.retired.extract_if(.., |session| Arc::strong_count(session) == 1).collect::<Vec<_>>()
        };
        let mut well = true;
        for session in idle {
            if !session.is_closed() {
                well &= self.close_retired(session).await;
            }
        }
        well
    }

    async fn close_retired(&self, session: Arc<Session>) -> bool {
        let closed: Result<(), StoreError> = self.store.close_session(session.id).await;
        if let Err(error) = closed {
            warn!(session.id = %session.id, error = &error as &dyn std::error::Error, "could not close session");
            self.lock().retired.push(session);
            return false;
        }
        info!(session.id = %session.id, "closed retired session {}", session.id);
        true
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, SessionState> {
        self.state.lock().expect("nothing panics while it holds this lock")
    }
}
